"""The client that a request comes from, as far as vLLM tells clients apart: by its address and its API key.

vLLM passes neither to a plugin, so a middleware of its HTTP server notes them for the request's tasks. Other names that clients
give themselves (`user`, `X-Request-Id`, `session_id`, `priority`) say nothing: a client could take a new one for each request.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from logitkit_adapters.admission.clients import NOBODY, Client, client_at
from logitkit_adapters.vllm.internals import is_missing

__all__ = ["NotedClient", "current_client", "install_client_notes", "retry_after"]

# The headers of API keys: that of OpenAI's clients, and that of Anthropic's.
KEYS = (b"authorization", b"x-api-key")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@dataclass(eq=False, slots=True)
class _Request:
    """A request over HTTP: its client, and the seconds after which that should try again, if it is turned away."""

    client: Client
    retry_after: int | None = None


_request: ContextVar[_Request | None] = ContextVar("request", default=None)


def current_client() -> Client:
    """Return the client of the request that this task works for."""
    request = _request.get()
    return NOBODY if request is None else request.client


def retry_after(seconds: int) -> None:
    """Add `Retry-After` to the answer of the request that this task works for, if its status is 503."""
    request = _request.get()
    if request is not None:
        request.retry_after = seconds


class NotedClient:
    """ASGI middleware that notes the client of each HTTP request for all code that works on it.

    Args:
        app: The application.
    """

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Note the client, and call the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(_client_of(scope))

        async def answer(message: Message) -> None:
            if request.retry_after is not None and message.get("status") == HTTPStatus.SERVICE_UNAVAILABLE:
                message["headers"] = [*message["headers"], (b"retry-after", str(request.retry_after).encode())]
            await send(message)

        token = _request.set(request)
        try:
            await self._app(scope, receive, answer)
        finally:
            _request.reset(token)


def install_client_notes() -> None:
    """Add the middleware to the HTTP server of vLLM, which a process builds after its plugins are loaded."""
    if not is_missing("init_entrypoints_middleware"):
        server = pkgutil.resolve_name("vllm.entrypoints.launchers.app")
        server.init_entrypoints_middleware = _noting(server.init_entrypoints_middleware)


def _noting(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def init_entrypoints_middleware(args: Any, app: Any, *more: Any, **named: Any) -> None:
        original(args, app, *more, **named)
        app.add_middleware(NotedClient)

    return init_entrypoints_middleware


def _client_of(scope: Message) -> Client:
    # Behind a proxy that uvicorn trusts (FORWARDED_ALLOW_IPS), the host is the one that the proxy names.
    host, _ = scope.get("client") or ("", 0)
    keys = [value for name, value in scope["headers"] if name in KEYS]
    return client_at(host, keys)
