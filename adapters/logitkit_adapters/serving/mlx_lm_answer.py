"""The answer of mlx-lm's server to a request with structured output: a stream, or one message."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from logitkit import Vocabulary
from logitkit_adapters.serving.answer_reader import AnswerReader, Delta
from logitkit_adapters.serving.messages import Message
from logitkit_adapters.serving.refusals import error_object
from logitkit_adapters.serving.requests import ServedRequest

__all__ = ["MlxLmAnswer"]

# mlx-lm's name of the member with reasoning.
REASONING = "reasoning"


class _GenerationFailed(Exception):
    """The engine has failed to generate an answer."""


def _failing(responses: Iterable[Any]) -> Iterator[Any]:
    """Yield the engine's responses, and raise its errors as one kind: those of sending an answer are others."""
    try:
        yield from responses
    except Exception as error:
        raise _GenerationFailed(f"the generation failed: {error}") from error


class MlxLmAnswer:
    """Writes one answer, with the bodies and headers of the engine's handler.

    Args:
        handler: The handler of the request.
        asked: The request.
        vocabulary: The tokens of the model.

    Raises:
        LogitkitError: The stops of the request cannot be compiled.
    """

    def __init__(self, handler: Any, asked: ServedRequest, vocabulary: Vocabulary) -> None:
        self._handler = handler
        self._reader = AnswerReader(asked, vocabulary, REASONING)
        self._message = Message()
        self._tokens: list[int] = []
        self._logprobs: list[float] = []
        self._top: list[Any] = []
        # Whether the client has left.
        self._left = False

    def write(self, context: Any, responses: Iterable[Any], args: Any, error: Callable[[], Exception | None]) -> None:
        """Write the answer while it is generated.

        Args:
            context: The engine's context of the generation.
            responses: The engine's responses, one per token.
            args: The engine's arguments of the generation.
            error: Returns the error of the processor, if there was one.
        """
        stream = self._handler.stream
        if stream:
            self._handler._set_stream_headers(int(HTTPStatus.OK))  # noqa: SLF001 - those of the engine
            self._handler.end_headers()
        try:
            reason = self._read(context, responses, args, stream)
        except _GenerationFailed as failure:
            self._fail(str(failure), stream)
            return
        failed = error()
        if self._left:
            return
        if failed is None:
            self._add(self._reader.finish(), stream)
            self._end(context, self._reader.finish_reason(reason), stream)
        else:
            self._fail(f"a processor failed: {failed}", stream)

    def _read(self, context: Any, responses: Iterable[Any], args: Any, stream: bool) -> str | None:
        """Read the tokens up to a stop or the end, or until the client has left, and return the engine's finish reason."""
        reason: str | None = None
        for response in _failing(responses):
            self._tokens.append(response.token)
            if args.logprobs:
                self._logprobs.append(response.logprob)
            if args.top_logprobs > 0:
                self._top.append(response.top_tokens)
            self._add(self._reader.feed(response.token), stream)
            reason = response.finish_reason or reason
            if self._reader.stopped:
                context.stop()
                break
            self._left = self._has_left()
            if self._left:
                break
        return reason

    def _has_left(self) -> bool:
        """Whether the client has closed its connection, which nothing else tells as long as nothing is sent."""
        try:
            return not self._handler.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _add(self, deltas: list[Delta], stream: bool) -> None:
        if not stream:
            self._message.add(deltas)
            return
        for delta in deltas:
            self._send(self._chunk(delta, None))

    def _chunk(self, delta: Mapping[str, Any], reason: str | None) -> Any:
        return self._handler.generate_response(
            delta.get("content", ""),
            reason,
            tool_calls=delta.get("tool_calls"),
            reasoning_text=delta.get(REASONING),
        )

    def _end(self, context: Any, reason: str, stream: bool) -> None:
        handler, counts = self._handler, (len(context.prompt), len(self._tokens), context.prompt_cache_count)
        if stream:
            self._send(self._chunk({}, reason))
            if (handler.stream_options or {}).get("include_usage"):
                self._send(handler.completion_usage_response(*counts))
            handler.wfile.write(b"data: [DONE]\n\n")
            handler.wfile.flush()
            return
        message, count = self._message.body(), self._reader.text_tokens
        body = handler.generate_response(
            message["content"] or "",
            reason,
            *counts,
            token_logprobs=self._logprobs[:count],
            top_tokens=self._top[:count],
            tokens=self._tokens[:count],
            tool_calls=message.get("tool_calls"),
            reasoning_text=message.get(REASONING),
        )
        self._write_json(HTTPStatus.OK, body)

    def _fail(self, message: str, stream: bool) -> None:
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        body = error_object(message, status)
        if stream:
            self._send(body)
        else:
            self._write_json(status, body)

    def _send(self, body: Mapping[str, Any]) -> None:
        self._handler.wfile.write(f"data: {json.dumps(body)}\n\n".encode())
        self._handler.wfile.flush()

    def _write_json(self, status: HTTPStatus, body: Mapping[str, Any]) -> None:
        content = json.dumps(body).encode()
        self._handler._set_completion_headers(int(status))  # noqa: SLF001 - those of the engine
        self._handler.send_header("Content-Length", str(len(content)))
        self._handler.end_headers()
        self._handler.wfile.write(content)
        self._handler.wfile.flush()
