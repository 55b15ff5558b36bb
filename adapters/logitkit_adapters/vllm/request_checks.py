"""Changes to the classes of vLLM's HTTP requests, which see what no plugin does: unknown fields, and requests for beam search."""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit_adapters.vllm.answers import refusal
from logitkit_adapters.vllm.mistakes import check_body, check_extra_args
from logitkit_adapters.vllm.parameters import KEY

__all__ = ["BEAM_REQUESTS", "REQUESTS", "install_request_checks"]

# The classes of HTTP requests that may ask for beam search, and all that become sampling parameters.
BEAM_REQUESTS = (
    "vllm.entrypoints.openai.completion.protocol:CompletionRequest",
    "vllm.entrypoints.openai.chat_completion.protocol:ChatCompletionRequest",
    "vllm.entrypoints.speech_to_text.transcription.protocol:TranscriptionRequest",
    "vllm.entrypoints.speech_to_text.translation.protocol:TranslationRequest",
)
REQUESTS = (*BEAM_REQUESTS, "vllm.entrypoints.openai.responses.protocol:ResponsesRequest")


def install_request_checks() -> None:
    """Change the classes that this release of vLLM has; `internals` warns of those that are missing."""
    for name in REQUESTS:
        try:
            request = pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            continue
        for method, checked in (("to_sampling_params", _without_mistakes), ("to_beam_search_params", _without_beams)):
            if hasattr(request, method):
                setattr(request, method, checked(getattr(request, method)))


def _without_mistakes(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def to_sampling_params(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            check_body(self.model_extra)
        except ConfigurationError as error:
            raise refusal(str(error)) from None
        return original(self, *args, **kwargs)

    return to_sampling_params


def _without_beams(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def to_beam_search_params(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = getattr(self, "vllm_xargs", None) or {}
        try:
            check_body(self.model_extra)
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
