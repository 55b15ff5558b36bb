"""Changes to vLLM's HTTP requests, which see what no plugin does: unknown fields, values of a wrong type, and beam search."""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit_adapters.admission.asked import KEY
from logitkit_adapters.vllm.answers import refusal
from logitkit_adapters.vllm.internals import http_requests, is_missing
from logitkit_adapters.vllm.mistakes import check_body, check_extra_args, wrong_arguments
from logitkit_adapters.vllm.openai_fields import install_openai_fields, take_openai_fields, unknown_fields

__all__ = ["install_request_checks"]

# A field of chats whose members have any names.
TEMPLATE = "chat_template_kwargs"


def install_request_checks() -> None:
    """Change the classes that this release of vLLM has; `internals` warns of those that are missing."""
    for request in http_requests():
        for method, checked in (("to_sampling_params", _without_mistakes), ("to_beam_search_params", _without_beams)):
            if hasattr(request, method):
                setattr(request, method, checked(getattr(request, method)))
    install_openai_fields()
    if not (is_missing("validation_exception_handler") or is_missing("create_error_response")):
        # A server registers its handlers after it has loaded its plugins.
        register = pkgutil.resolve_name("vllm.entrypoints.serve.exception_handling.register")
        register.validation_exception_handler = _with_form(register.validation_exception_handler)


def _with_form(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler of bodies with values of a wrong type, which says what to send if the value is a configuration."""

    @functools.wraps(original)
    async def validation_exception_handler(req: Any, exc: Any) -> Any:
        message = wrong_arguments(exc.errors())
        if message is None:
            return await original(req, exc)
        from starlette.responses import JSONResponse
        from vllm.entrypoints.serve.exception_handling.error_response import create_error_response

        found = create_error_response(refusal(message, message.partition(" ")[0]))
        return JSONResponse(found.model_dump(), status_code=found.error.code)

    return validation_exception_handler


def _without_mistakes(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def to_sampling_params(self: Any, *args: Any, **kwargs: Any) -> Any:
        take_openai_fields(self)
        try:
            _check_fields(self)
        except ConfigurationError as error:
            raise refusal(str(error)) from None
        return original(self, *args, **kwargs)

    return to_sampling_params


def _check_fields(request: Any) -> None:
    """Refuse a configuration in an unknown field, or in the arguments of a chat template, which ignores it."""
    check_body(unknown_fields(request))
    check_body({TEMPLATE: getattr(request, TEMPLATE, None)})


def _without_beams(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def to_beam_search_params(self: Any, *args: Any, **kwargs: Any) -> Any:
        take_openai_fields(self)
        given = getattr(self, "vllm_xargs", None) or {}
        try:
            _check_fields(self)
            # Only processors read these arguments, and beam search runs none.
            check_extra_args(given, others_read=False)
        except ConfigurationError as error:
            raise refusal(str(error)) from None
        if given.get(KEY) is not None:
            raise refusal(
                f"use_beam_search and {KEY} are given, but vLLM's beam search would drop {KEY}; leave one of them out, or use "
                "logitkit_adapters.vllm.beam_search offline",
                "use_beam_search",
            )
        return original(self, *args, **kwargs)

    return to_beam_search_params
