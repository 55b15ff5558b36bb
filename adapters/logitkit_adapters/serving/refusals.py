"""Requests that a server refuses, answered with the error object that OpenAI's clients read."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from logitkit.errors import LogitkitError, PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS

__all__ = ["RefusedRequest", "error_object", "refusal_of", "refused_stops"]

# The `type` of OpenAI's errors, by status.
TYPES = {
    HTTPStatus.BAD_REQUEST: "invalid_request_error",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "invalid_request_error",
    HTTPStatus.SERVICE_UNAVAILABLE: "overloaded_error",
}


class RefusedRequest(Exception):
    """A request that is not served.

    Args:
        message: What was given, what is allowed, and what to do.
        parameter: The field of the body that is at fault.
        status: The status of the answer.
        retry_after: After how many seconds another try makes sense, or None.
    """

    def __init__(
        self,
        message: str,
        parameter: str | None = None,
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.parameter, self.status, self.retry_after = message, parameter, status, retry_after

    def body(self) -> dict[str, Any]:
        """Return the body of the answer."""
        return error_object(self.message, self.status, self.parameter)


def refusal_of(error: RefusedRequest | RecursionError) -> RefusedRequest:
    """Return the refusal of a request that could not be read.

    Args:
        error: The error. Its body may be nested more deeply than Python can read or write it.
    """
    if isinstance(error, RefusedRequest):
        return error
    return RefusedRequest("the body is nested too deeply; allowed are a few hundred levels of objects and lists")


def refused_stops(error: LogitkitError) -> RefusedRequest:
    """Return the refusal of stops that cannot be searched for.

    Args:
        error: Why.
    """
    if isinstance(error, PatternTooLarge):
        return RefusedRequest(
            f"stop is too long; allowed are texts of about {DEFAULT_LIMITS.states} bytes together", "stop"
        )
    return RefusedRequest(f"stop: {error}", "stop")


def error_object(message: str, status: HTTPStatus, parameter: str | None = None) -> dict[str, Any]:
    """Return an error as OpenAI's clients read it.

    Args:
        message: Its message.
        status: The status of the answer, or the one that it would have if it had not begun.
        parameter: The field of the request that is at fault.

    Example:
        >>> error_object("no", HTTPStatus.BAD_REQUEST, "stop")["error"]["param"]
        'stop'
    """
    kind = TYPES.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": parameter, "code": int(status)}}
