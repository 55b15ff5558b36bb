"""The middleware in front of an application of FastAPI, which decides what reaches an endpoint. No engine is needed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

import logitkit as lk
from logitkit_adapters.serving import served_model
from logitkit_adapters.serving.admission import Admission
from logitkit_adapters.serving.middleware import ReadRequests, add_to, admitted
from logitkit_adapters.serving.served_model import Options, ServedModel

fastapi = pytest.importorskip("fastapi")

VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
CHAT, CODE = "/v1/chat/completions", "/v1/engines/code/completions"
CONSTRAINED = {"logitkit": {"choice": ["yes"]}}


@pytest.fixture(scope="module")
def model() -> Iterator[ServedModel]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(served_model, "Admission", partial(Admission, forks=False))  # no process to start
        made = ServedModel(VOCABULARY, None, Options("hermes"))
    yield made
    made.close()


def app_with(model: Any, root_path: str = "", app: Any = None, **more: Any) -> Any:
    """Return an application whose endpoints say which fields they were given, and whether there is a constraint."""
    app = fastapi.FastAPI() if app is None else app
    app.root_path = root_path  # as its argument does, with a warning

    async def answer(body: dict[str, Any]) -> dict[str, Any]:
        request = admitted()
        return {"fields": [*body], "constrained": request is not None and request.processor is not None}

    for path in (CHAT, CODE):
        app.post(path)(answer)
    given: dict[str, Any] = {"model_of": lambda _body, _path: model, "max_tokens": lambda _body, _chat: None, **more}
    add_to(app, paths={CHAT: True, CODE: False}, **given)
    return app


def answer_to(
    app: Any, body: Any, path: str = CHAT, headers: Mapping[str, str] | None = None
) -> tuple[int, str, dict[str, str]]:
    """Return the status, the body and the headers of the answer to a request."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    named += [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"}
    scope |= {"path": path, "raw_path": path.encode(), "query_string": b"", "headers": named}  # type: ignore[dict-item]
    scope |= {"client": ("127.0.0.1", 5), "server": ("127.0.0.1", 80)}  # type: ignore[dict-item]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    written = b"".join(message.get("body", b"") for message in sent).decode()
    return sent[0]["status"], written, {name.decode(): value.decode() for name, value in sent[0]["headers"]}


def post(app: Any, body: Any, path: str = CHAT) -> tuple[int, Any]:
    """Return the status of the answer to a request, and its body, which is JSON in success and in refusals of ours."""
    status, written, _ = answer_to(app, body, path)
    return status, json.loads(written) if written.startswith("{") else written


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("response_format", {}),
        ("response_format", ""),
        ("response_format", []),
        ("response_format", False),
        ("response_format", {"type": "json_schema", "json_schema": {"name": "x", "schema": None}}),
        ("logitkit", ""),
        ("logitkit", []),
        ("logitkit", 0),
        ("logitkit", False),
        ("tool_choice", {}),
        ("tool_choice", ""),
        ("tools", {}),
        ("tools", ""),
        ("stop", ""),
    ],
)
def test_empty_values_are_refused_and_not_ignored(model: ServedModel, field: str, value: Any) -> None:
    status, answer = post(app_with(model), {field: value})
    assert (status, answer["error"]["param"]) == (400, field), answer


@pytest.mark.parametrize("root_path", ["", "/proxy"])
def test_every_path_that_reaches_an_endpoint_is_read(model: ServedModel, root_path: str) -> None:
    app, reached = app_with(model, root_path), 0
    for path in (CHAT, CODE):
        for prefix in ("", root_path, "/", "/proxy/proxy"):
            for end in ("", "\n", "/", "?", "\r", " "):
                status, answer = post(app, CONSTRAINED, f"{prefix}{path}{end}")
                if status == 200:
                    reached += 1
                    assert answer == {"fields": [], "constrained": True}, (prefix, path, end)
    assert reached >= 2


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b'{"logitkit": {"choice": ["yes"]}, "logitkit": null}', "logitkit"),
        (b'{"response_format": {"type": "json_object"}, "response_format": {"type": "text"}}', "response_format"),
        (b'{"logitkit": {"choice": ["yes"], "choice": ["no"]}}', "choice"),
        (b'{"x": [{"y": 1, "y": 2}], "stop": "."}', "y"),
    ],
)
def test_a_key_that_comes_twice_is_refused(model: ServedModel, content: bytes, key: str) -> None:
    status, answer = post(app_with(model), content)
    assert (status, answer["error"]["message"]) == (400, f"an object in the body has the key {key!r} twice; remove one")


def test_keys_that_come_twice_in_other_requests_are_the_engines_affair(model: ServedModel) -> None:
    status, answer = post(app_with(model), b'{"x": 1, "x": 2}')
    assert (status, answer) == (200, {"fields": ["x"], "constrained": False})


@pytest.mark.parametrize(
    "fields",
    [
        {"logitkit": None},
        {"response_format": None, "tools": None, "tool_choice": None, "parallel_tool_calls": None, "stop": None},
        {"stop": [], "tools": None},
        {"response_format": {"type": "text"}, "logitkit": None},
        {"tool_choice": "auto", "parallel_tool_calls": True},
    ],
)
def test_fields_that_ask_for_nothing_do_not_reach_the_engine(model: ServedModel, fields: dict[str, Any]) -> None:
    """It may not know them, even if they are null."""
    assert post(app_with(model), {"x": None, **fields}) == (200, {"fields": ["x"], "constrained": False})


@pytest.mark.parametrize("leaves", [True, False])
def test_it_is_noted_that_a_client_leaves(model: ServedModel, leaves: bool) -> None:
    """Though the endpoint does not ask whether it has left."""
    noted: list[bool] = []

    async def endpoint(scope: Any, receive: Any, send: Any) -> None:
        request = admitted()
        assert request is not None
        body = (await receive())["body"]
        noted.append(request.left.is_set())
        noted.append(await asyncio.to_thread(request.left.wait, 5 if leaves else 0.1))
        if leaves:
            assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    messages = iter([{"type": "http.request", "body": json.dumps(CONSTRAINED).encode(), "more_body": False}])

    async def receive() -> Any:
        found = next(messages, None)
        if found is None and not leaves:
            await asyncio.sleep(60)
        return found or {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        assert message.get("body", b"{}") == b"{}"

    app = ReadRequests(
        endpoint, paths={CHAT: True}, model_of=lambda _body, _path: model, max_tokens=lambda _body, _chat: None
    )
    asyncio.run(app({"type": "http", "method": "POST", "path": CHAT, "headers": []}, receive, send))
    assert noted == [False, leaves]


@pytest.mark.parametrize("field", ["x", "stop", "tools", "logitkit", "response_format"])
def test_a_body_of_any_depth_is_answered(model: ServedModel, field: str) -> None:
    app = app_with(model)
    whole = {"type": "json_schema", "json_schema": {"schema": 0}} if field == "response_format" else {"regex": 0}
    for depth in (10, *range(890, 1000), 100_000):
        content = json.dumps({**CONSTRAINED, field: whole}).replace("0", "[" * depth + "]" * depth)
        status, answer = post(app, content.encode())
        assert answer["constrained"] if status == 200 else status == 400, (depth, answer)


def test_a_model_that_cannot_be_loaded() -> None:
    def model_of(_body: Any, _path: str) -> ServedModel:
        raise OSError("it is not there")

    status, answer = post(app_with(None, model_of=model_of), {**CONSTRAINED, "model": "some"})
    assert (status, answer["error"]["message"]) == (400, "the model 'some' cannot be loaded: it is not there")
    assert post(app_with(None, model_of=model_of), {"model": "some"})[0] == 200  # for the engine to refuse


def test_a_page_in_a_browser_can_read_refusals(model: ServedModel) -> None:
    from fastapi.middleware.cors import CORSMiddleware

    async def named(request: Any, call_next: Any) -> Any:
        answer = await call_next(request)
        answer.headers["x-request-id"] = "5"
        return answer

    app = fastapi.FastAPI()
    app.add_middleware(CORSMiddleware, allow_origins=["*"])
    app.middleware("http")(named)
    app_with(model, app=app)
    for body, expected in (
        (CONSTRAINED, 200),
        ({"response_format": {}}, 400),
        (b'{"x": "' + b"a" * 2**25 + b'"}', 413),
    ):
        status, _, headers = answer_to(app, body, headers={"Origin": "http://page"})
        assert (status, headers["access-control-allow-origin"], headers["x-request-id"]) == (expected, "*", "5")
