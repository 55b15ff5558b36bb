"""Errors that vLLM's server answers with a status and their own message."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any

from logitkit_adapters.vllm.internals import is_missing

__all__ = ["http_error", "install_error_events", "refusal"]


def refusal(message: str, parameter: str | None = None) -> Exception:
    """Return the error of a request that is not allowed, status 400.

    Args:
        message: The message.
        parameter: The parameter of the request that is at fault.
    """
    try:
        from vllm.exceptions import VLLMValidationError
    except ImportError:  # a release without it answers a ValueError in the same way
        return ValueError(message)
    found: Exception = VLLMValidationError(message, parameter=parameter)
    return found


def http_error(message: str, status: HTTPStatus) -> Exception:
    """Return the error of a request that is answered with some other status."""
    try:
        from vllm.exceptions import GracefulHTTPError
    except ImportError:  # a release without it answers with status 500
        return RuntimeError(message)
    found: Exception = GracefulHTTPError(message, status)
    return found


def install_error_events() -> None:
    """Change vLLM's streams of `/v1/responses`, which break off at an error, to end with an event of it."""
    if not (is_missing("OpenAIServingResponses.responses_stream_generator") or is_missing("GracefulHTTPError")):
        from vllm.entrypoints.openai.responses.serving import OpenAIServingResponses as Responses

        Responses.responses_stream_generator = _with_error_event(Responses.responses_stream_generator)


def _with_error_event(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    async def responses_stream_generator(self: Any, *args: Any, **kwargs: Any) -> Any:
        from openai.types.responses import ResponseErrorEvent
        from vllm.exceptions import GracefulHTTPError

        sent = 0
        try:
            async for event in original(self, *args, **kwargs):
                yield event
                sent += 1
        except GracefulHTTPError as error:
            code = str(int(error.http_status))
            yield ResponseErrorEvent(type="error", code=code, message=error.message, sequence_number=sent)

    return responses_stream_generator
