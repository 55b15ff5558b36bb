"""Changes to vLLM's front end, whose hook for plugins can neither wait nor see all requests.

A request waits until another process has compiled its configuration, so the event loop, which handles all tokens, never waits.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import weakref
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from logitkit.configuration import RegisteredKind, installed_kinds
from logitkit.errors import ConfigurationError
from logitkit.protocol.kind import Kind
from logitkit.runtime.shared import shared_by
from logitkit_adapters.vllm.answers import http_error, install_error_events
from logitkit_adapters.vllm.compiler import CompileFailed, Compiler, Unavailable
from logitkit_adapters.vllm.configurations import Configurations, configurations_of
from logitkit_adapters.vllm.internals import is_missing, report_internals
from logitkit_adapters.vllm.parameters import Asked, asked
from logitkit_adapters.vllm.request_checks import install_request_checks
from logitkit_adapters.vllm.settings import settings
from logitkit_adapters.vllm.watching import check_request, install_following, is_configured, watch_of, watched

__all__ = ["install"]

# A configuration of up to this many characters that compiles nothing is read faster than another process could be asked.
SHORT = 1024

_compilers: weakref.WeakKeyDictionary[Any, Compiler] = weakref.WeakKeyDictionary()


@functools.cache
def install() -> None:
    """Change vLLM's front end, once per process.

    vLLM calls this when it starts, as one of its general plugins; if these are off, the import of the plugin calls it. Parts
    that a release of vLLM lacks are left out, as `internals` says.
    """
    report_internals()
    _install_waiting()
    install_following()
    install_request_checks()
    install_error_events()


def _install_waiting() -> None:
    if not is_missing("AsyncLLM.add_request"):
        from vllm.v1.engine.async_llm import AsyncLLM

        AsyncLLM.add_request = _waiting(AsyncLLM.add_request)


def _waiting(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def add_request(self: Any, request_id: str, prompt: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_configured(params):
            return await original(self, request_id, prompt, params, *args, **kwargs)
        check_request(self, params, prompt)
        await _admit(self, params)
        queue = await original(self, request_id, prompt, params, *args, **kwargs)
        watch = watch_of(self, params, prompt)
        return queue if watch is None else watched(queue, watch, request_id)

    return add_request


async def _admit(engine: Any, params: Any) -> None:
    """Wait for the verdict on a request's configuration, which `validate_params` then finds."""
    try:
        what = asked(params, engine.vllm_config)
    except ConfigurationError:
        return  # `validate_params` raises it again, where vLLM expects it
    if what is None or what.text is None:
        return
    compiler = await _compiler_of(engine)
    if not _is_ready(configurations_of(engine.vllm_config), what, compiler) and not _is_cheap(what.text):
        try:
            await compiler.verdict(what)
        except Unavailable as error:
            raise http_error(str(error), HTTPStatus.SERVICE_UNAVAILABLE) from None
        except CompileFailed as error:
            raise http_error(str(error), HTTPStatus.INTERNAL_SERVER_ERROR) from None


def _is_ready(configurations: Configurations, what: Asked, compiler: Compiler) -> bool:
    """Whether there is a verdict, and its automata are in the files that the workers of this engine read."""
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
        return True  # refusing it takes no time
    return not isinstance(config, Mapping) or not any(_compiles(installed_kinds().get(name)) for name in config)


def _compiles(kind: Kind | None) -> bool:
    """Whether a processor of a kind may compile something: a shipped class needs a vocabulary for that."""
    if kind is None or kind.made is None or isinstance(kind, RegisteredKind):
        return True
    return not inspect.signature(kind.made).parameters.keys().isdisjoint({"vocabulary", "limits"})


async def _compiler_of(engine: Any) -> Compiler:
    """Return the compiler of an engine, which is created for the first request that needs it."""
    if engine not in _compilers:
        # This reads the vocabulary, which may take a second. Meanwhile, another request may create the compiler.
        configurations = await asyncio.to_thread(configurations_of, engine.vllm_config)
        if engine not in _compilers:
            files = shared_by(configurations.vocabulary).files
            _compilers[engine] = Compiler(
                configurations.vocabulary,
                None if files is None else files.folder,
                configurations.remember,
                most=settings().waiting,
                patience=settings().seconds,
                device=configurations.device,
            )
            weakref.finalize(engine, _compilers[engine].close)
    return _compilers[engine]
