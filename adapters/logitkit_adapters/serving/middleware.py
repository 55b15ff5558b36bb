"""Reads requests in front of an ASGI server, so that one that is refused never reaches the engine, its locks or its queue."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from logitkit.errors import LogitkitError
from logitkit.protocol.processor import Processor
from logitkit_adapters.admission.clients import client_at
from logitkit_adapters.serving.answer_reader import AnswerReader
from logitkit_adapters.serving.http_bodies import check_length, constrained_body, without_nulls
from logitkit_adapters.serving.refusals import RefusedRequest, refusal_of, refused_stops
from logitkit_adapters.serving.requests import FIELDS, ServedRequest
from logitkit_adapters.serving.served_model import ServedModel

__all__ = ["AdmittedRequest", "ReadRequests", "add_to", "admitted"]

AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
App = Callable[[AsgiMessage, Receive, Send], Awaitable[None]]


@dataclass(frozen=True)
class AdmittedRequest:
    """A request with fields of ours that is allowed.

    Args:
        asked: What it asks for.
        model: The model that it is for.
        processor: Its processor, or None.
        left: Set once its client has left, so that nothing more need be generated.
    """

    asked: ServedRequest
    model: ServedModel
    processor: Processor[Any] | None
    left: threading.Event = field(default_factory=threading.Event)

    def reader(self, stops: tuple[str, ...] = ()) -> AnswerReader:
        """Return the reader of its answer.

        Args:
            stops: Texts at which the engine's chat template ends an answer.
        """
        return AnswerReader(self.asked, self.model.vocabulary, stops=stops)


_admitted: contextvars.ContextVar[AdmittedRequest | None] = contextvars.ContextVar("admitted", default=None)


def admitted() -> AdmittedRequest | None:
    """Return the request that this task or thread works for; None if the engine serves it alone."""
    return _admitted.get()


class ReadRequests:
    """ASGI middleware that reads the bodies of requests.

    Args:
        app: The engine's server.
        paths: The paths of chats and completions, each with whether it is a chat.
        model_of: Returns the model that a body sent to a path is for; it may wait. None: the engine serves the request alone.
        max_tokens: Returns the maximum number of tokens if a body does not say it.
        adapted: Returns the body for the engine, without our fields.
        is_allowed: Whether the headers of a request are those of a client that may use the server; the engine refuses others.
    """

    def __init__(
        self,
        app: App,
        *,
        paths: Mapping[str, bool],
        model_of: Callable[[Mapping[str, Any], str], ServedModel | None],
        max_tokens: Callable[[Mapping[str, Any], bool], int | None],
        adapted: Callable[[dict[str, Any]], dict[str, Any]] = lambda body: body,
        is_allowed: Callable[[Mapping[bytes, bytes]], bool] = lambda _: True,
    ) -> None:
        self._app, self._paths, self._model_of, self._max_tokens = app, paths, model_of, max_tokens
        self._adapted, self._is_allowed = adapted, is_allowed

    async def __call__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        """Read a request, and pass it on or refuse it."""
        headers = _headers(scope)
        path = _route_path(scope) if scope["type"] == "http" and scope["method"] == "POST" else ""
        chat = self._paths.get(path)
        if chat is None or not self._is_allowed(headers):
            await self._app(scope, receive, send)
            return
        token = None
        try:
            content = await _body(headers, receive)
            if content is None:  # the client has left
                return
            content, request = await self._read(content, path, scope, headers)
            token = _admitted.set(request)
        except (RefusedRequest, RecursionError) as error:
            await _answer(send, refusal_of(error))
            return
        changed = [pair for pair in scope["headers"] if pair[0] not in (b"content-length", b"transfer-encoding")]
        scope = {**scope, "headers": [*changed, (b"content-length", str(len(content)).encode())]}
        try:
            if request is None:
                await self._app(scope, _replayed(content, receive), send)
                return
            async with _watched(receive, request.left) as connection:
                await self._app(scope, _replayed(content, connection), send)
        finally:
            _admitted.reset(token)

    async def _read(
        self, content: bytes, path: str, scope: AsgiMessage, headers: Mapping[bytes, bytes]
    ) -> tuple[bytes, AdmittedRequest | None]:
        body = constrained_body(content)
        if body is None:
            return without_nulls(content), None
        host, _ = scope.get("client") or ("", 0)
        keys = [headers[name] for name in (b"authorization", b"x-api-key") if name in headers]
        asked, model = await asyncio.to_thread(self._asked, body, path)
        if model is None:
            return content, None
        others = {
            name: value for name, value in body.items() if name not in FIELDS and (name, value) != ("tools", None)
        }
        if asked is None:  # the fields ask for nothing, and an engine may not know them
            return json.dumps(others).encode(), None
        request = AdmittedRequest(asked, model, await model.processor_async(asked, client_at(host, keys)))
        return json.dumps(self._adapted(others)).encode(), request

    def _asked(self, body: dict[str, Any], path: str) -> tuple[ServedRequest | None, ServedModel | None]:
        chat, model = self._paths[path], self._model(body, path)
        if model is None:
            return None, None
        given = body if chat else {name: value for name, value in body.items() if name != "tools"}
        asked = model.read(given, self._max_tokens(body, chat))
        if asked is not None:
            try:
                AnswerReader(replace(asked, tools=None), model.vocabulary)
            except LogitkitError as error:
                raise refused_stops(error) from None
        return asked, model

    def _model(self, body: dict[str, Any], path: str) -> ServedModel | None:
        try:
            return self._model_of(body, path)
        except RefusedRequest:
            raise
        except Exception as error:
            name = body.get("model")
            raise RefusedRequest(f"the model {name!r:.200} cannot be loaded: {error}", "model") from error


def add_to(app: Any, **arguments: Any) -> None:
    """Put `ReadRequests` into an application, inside of its other middleware, which also sees the refusals (CORS, request ids).

    Args:
        app: A FastAPI application that has not begun to serve.
        arguments: The arguments of `ReadRequests`, without the application.
    """
    from starlette.middleware import Middleware

    app.user_middleware.append(Middleware(ReadRequests, **arguments))


def _headers(scope: AsgiMessage) -> dict[bytes, bytes]:
    """Return the headers of a request. Of one that comes twice, servers read the first."""
    return dict(reversed(scope.get("headers") or ()))


def _route_path(scope: AsgiMessage) -> str:
    """Return the path by which the server finds the endpoint of a request."""
    path: str = scope.get("path", "")
    root = scope.get("root_path", "")
    if root and path.startswith(f"{root}/"):
        path = path[len(root) :]
    return path.removesuffix("\n")  # which the patterns of routes allow at the end


async def _body(headers: Mapping[bytes, bytes], receive: Receive) -> bytes | None:
    if b"content-length" in headers:
        check_length(headers[b"content-length"].decode("latin-1"))
    parts: list[bytes] = []
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        length, more = check_length(length + len(parts[-1])), message.get("more_body", False)
    return b"".join(parts)


def _replayed(content: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first gives the body, and then what the server says of the connection."""
    given = False

    async def replay() -> AsgiMessage:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": content, "more_body": False}

    return replay


@asynccontextmanager
async def _watched(receive: Receive, left: threading.Event) -> AsyncIterator[Receive]:
    """Set an event when the client leaves. The server hears of it only while it waits, and for a whole answer it does not.

    Args:
        receive: Returns what the client does after its body.
        left: The event.

    Yields:
        A `receive` for the server, because only one task may call the other one.
    """
    gone = asyncio.Event()

    async def watch() -> None:
        # Middleware of the server raises if anything else comes.
        with suppress(RuntimeError):
            if (await receive())["type"] == "http.disconnect":
                left.set()
                gone.set()

    async def connection() -> AsgiMessage:
        await gone.wait()
        return {"type": "http.disconnect"}

    watching = asyncio.ensure_future(watch())
    try:
        yield connection
    finally:
        watching.cancel()


async def _answer(send: Send, refused: RefusedRequest) -> None:
    content = json.dumps(refused.body()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    if refused.retry_after is not None:
        headers.append((b"retry-after", str(refused.retry_after).encode()))
    await send({"type": "http.response.start", "status": int(refused.status), "headers": headers})
    await send({"type": "http.response.body", "body": content})
