"""Errors that vLLM's server answers with a status and their own message."""

from __future__ import annotations

from http import HTTPStatus

__all__ = ["http_error", "refusal"]


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
