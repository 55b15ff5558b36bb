"""The client of an HTTP request is known to all code that works on it, and learns when to try again."""

from __future__ import annotations

import asyncio
import inspect
from argparse import Namespace
from typing import Any

import pytest

from logitkit_adapters.admission.clients import NOBODY, Client
from logitkit_adapters.vllm import internals
from logitkit_adapters.vllm.clients import NotedClient, current_client, install_client_notes, retry_after


def scope(host: str | None = "203.0.113.7", **headers: str) -> dict[str, Any]:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "client": None if host is None else (host, 4711), "headers": pairs}


class Application:
    """Notes the client in a task of its own, as vLLM's server works on requests, and answers with a status."""

    def __init__(self, status: int = 200, seconds: int | None = None) -> None:
        self.status, self.seconds = status, seconds
        self.client: Client | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await asyncio.create_task(self.work())
        await send({"type": "http.response.start", "status": self.status, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b""})

    async def work(self) -> None:
        self.client = current_client()
        if self.seconds is not None:
            retry_after(self.seconds)


def call(application: Application, given: dict[str, Any]) -> list[Any]:
    """Return what is sent."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def whole() -> None:
        await NotedClient(application)(given, None, send)  # type: ignore[arg-type]
        assert current_client() == NOBODY

    asyncio.run(whole())
    return sent


def client_of(given: dict[str, Any]) -> Client:
    application = Application()
    call(application, given)
    assert application.client is not None
    return application.client


def test_clients_have_addresses() -> None:
    assert client_of(scope()) == Client("203.0.113.7")
    assert client_of(scope("203.0.113.8")) != client_of(scope("203.0.113.9"))
    assert client_of(scope(None)) == client_of({"type": "websocket"}) == NOBODY


def test_a_network_of_ipv6_is_one_client() -> None:
    assert (
        client_of(scope("2001:db8:1:2::1")) == client_of(scope("2001:db8:1:2:ffff::5")) == Client("2001:db8:1:2::/64")
    )
    assert client_of(scope("2001:db8:1:3::1")) != client_of(scope("2001:db8:1:2::1"))


@pytest.mark.parametrize("header", ["authorization", "x_api_key"])
def test_clients_have_keys(header: str) -> None:
    one, other = (client_of(scope(**{header: f"Bearer {name}"})) for name in ("one", "other"))
    assert one.address == other.address
    assert len({one.key, other.key, b""}) == 3
    assert b"one" not in one.key
    assert one == client_of(scope(**{header: "Bearer one"}, user="another", x_request_id="5"))


def test_a_request_that_is_turned_away_says_when_to_try_again() -> None:
    (start, _) = call(Application(503, 7), scope())
    assert start["headers"] == [(b"a", b"b"), (b"retry-after", b"7")]
    for application in (Application(503), Application(200, 7)):
        (start, _) = call(application, scope())
        assert start["headers"] == [(b"a", b"b")]


def test_vllm_s_server_notes_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.entrypoints.launchers import app as server

    monkeypatch.setattr(server, "init_entrypoints_middleware", inspect.unwrap(server.init_entrypoints_middleware))
    install_client_notes()
    made = server.FastAPI()
    origins = {"allowed_origins": ["*"], "allowed_methods": ["*"], "allowed_headers": ["*"], "allow_credentials": False}
    arguments = Namespace(api_key=["key"], enable_request_id_headers=False, middleware=[], **origins)
    server.init_entrypoints_middleware(arguments, made, ())
    assert [one.cls for one in made.user_middleware].count(NotedClient) == 1


def test_a_release_without_that_function_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.entrypoints.launchers import app as server

    monkeypatch.delattr(server, "init_entrypoints_middleware")
    internals.missing.cache_clear()
    install_client_notes()
    internals.missing.cache_clear()
    assert not hasattr(server, "init_entrypoints_middleware")
