"""What the plugin changes in vLLM's front end, whose hook for plugins can neither wait nor see all requests.

A request waits until another process has compiled its configuration: the event loop, through which all tokens go, never waits.
A request for beams is refused, because vLLM drops its configuration.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import json
import logging
import weakref
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.runtime.shared import shared_by
from logitkit_adapters.vllm.compiler import CompileFailed, Compiler, Unavailable
from logitkit_adapters.vllm.configurations import Configurations, configurations_of
from logitkit_adapters.vllm.parameters import KEY, Asked, asked
from logitkit_adapters.vllm.settings import settings

__all__ = ["install"]

_logger = logging.getLogger(__name__)

# A configuration of up to this many characters, all of these kinds, takes less than to give it to another process.
SHORT = 1024
CHEAP = frozenset(
    {
        "logit_bias",
        "repetition_penalty",
        "frequency_penalty",
        "presence_penalty",
        "allow_tokens",
        "ban_tokens",
        "min_new_tokens",
        "forced_tokens",
        "forced_eos",
        "no_repeat_ngram",
        "temperature",
        "top_k",
        "top_a",
        "top_n_sigma",
        "typical_p",
        "top_p",
        "min_p",
        "xtc",
    }
)

# The classes of requests over HTTP that may ask for beams.
REQUESTS = (
    "openai.completion.protocol:CompletionRequest",
    "openai.chat_completion.protocol:ChatCompletionRequest",
    "speech_to_text.transcription.protocol:TranscriptionRequest",
    "speech_to_text.translation.protocol:TranslationRequest",
)

_compilers: weakref.WeakKeyDictionary[Any, Compiler] = weakref.WeakKeyDictionary()


@functools.cache
def install() -> None:
    """Change vLLM's front end, once in a process.

    vLLM calls this when it starts, as one of its general plugins; where these are off, it is called with the first request. An
    engine that is not as expected stays as it is, and compiles in place.
    """
    if not _install_waiting():
        _logger.warning(
            "logitkit does not know this release of vLLM: its server will wait while configurations compile"
        )
    for name in REQUESTS:
        module, _, kind = name.partition(":")
        try:
            request = getattr(importlib.import_module(f"vllm.entrypoints.{module}"), kind)
            request.to_beam_search_params = _without_beams(request.to_beam_search_params)
        except (ImportError, AttributeError):
            _logger.debug("this release of vLLM has no beams in %s", name)


def _install_waiting() -> bool:
    try:
        from vllm.v1.engine.async_llm import AsyncLLM
    except ImportError:
        return False
    original = getattr(AsyncLLM, "add_request", None)
    if not inspect.iscoroutinefunction(original):
        return False
    if [*inspect.signature(original).parameters][:4] != ["self", "request_id", "prompt", "params"]:
        return False
    AsyncLLM.add_request = _waiting(original)
    return True


def _waiting(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def add_request(self: Any, request_id: str, prompt: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        if KEY in (getattr(params, "extra_args", None) or ()):
            await _admit(self, params)
        return await original(self, request_id, prompt, params, *args, **kwargs)

    return add_request


def _without_beams(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def to_beam_search_params(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (getattr(self, "vllm_xargs", None) or {}).get(KEY) is not None:
            from vllm.exceptions import VLLMValidationError

            raise VLLMValidationError(
                f"use_beam_search is given together with {KEY}, which vLLM's beam search drops; leave one of them out, or use "
                "logitkit_adapters.vllm.beam_search offline",
                parameter="use_beam_search",
            )
        return original(self, *args, **kwargs)

    return to_beam_search_params


async def _admit(engine: Any, params: Any) -> None:
    """Wait until there is a verdict on what a request asks for, which `validate_params` then finds."""
    try:
        what = asked(params)
    except ConfigurationError:
        return  # and again in `validate_params`, where vLLM expects it
    if what is None or what.text is None:
        return
    compiler = await _compiler_of(engine)
    if not _is_ready(configurations_of(engine.vllm_config), what, compiler) and not _is_cheap(what.text):
        try:
            await compiler.verdict(what)
        except Unavailable as error:
            raise _http_error(str(error), HTTPStatus.SERVICE_UNAVAILABLE) from None
        except CompileFailed as error:
            raise _http_error(str(error), HTTPStatus.INTERNAL_SERVER_ERROR) from None


def _http_error(message: str, status: HTTPStatus) -> Exception:
    try:
        from vllm.exceptions import GracefulHTTPError
    except ImportError:  # a release before it, which answers with status 500
        return RuntimeError(message)
    found: Exception = GracefulHTTPError(message, status)
    return found


def _is_ready(configurations: Configurations, what: Asked, compiler: Compiler) -> bool:
    """Whether there is a verdict, and its automata are where the workers of this engine look."""
    found = configurations.verdict(what)
    if found is None:
        return False
    return all(file.parent == compiler.folder and file.exists() for file in found.files)


def _is_cheap(text: str) -> bool:
    if len(text) > SHORT:
        return False
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        return True  # to refuse it takes no time
    return not isinstance(config, Mapping) or CHEAP.issuperset(config)


async def _compiler_of(engine: Any) -> Compiler:
    """Return the compiler of an engine, made for the first request that needs it."""
    if engine not in _compilers:
        # This reads the vocabulary, which may take a second.
        await asyncio.to_thread(configurations_of, engine.vllm_config)
    found = _compilers.get(engine)
    if found is None:
        configurations = configurations_of(engine.vllm_config)
        files = shared_by(configurations.vocabulary).files
        folder = None if files is None else files.folder
        found = _compilers[engine] = Compiler(
            configurations.vocabulary,
            folder,
            configurations.remember,
            most=settings().waiting,
            patience=settings().seconds,
            device=configurations.device,
        )
        weakref.finalize(engine, found.close)
    return found
