"""Changes to vLLM's front end, whose hook for plugins can neither wait nor see all requests.

A request waits until another process has compiled its configuration, so the event loop, which handles all tokens, never waits.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import logging
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from logitkit.configuration import RegisteredKind, installed_kinds
from logitkit.errors import ConfigurationError, LogitkitError
from logitkit.protocol.kind import Kind
from logitkit.runtime.shared import shared_by
from logitkit_adapters.admission.compiler import CompileFailed, Compiler
from logitkit_adapters.admission.fork_server import ForkServer
from logitkit_adapters.admission.jobs import Unavailable
from logitkit_adapters.vllm.answers import http_error, install_error_events
from logitkit_adapters.vllm.clients import current_client, install_client_notes, retry_after
from logitkit_adapters.vllm.configurations import configurations_of
from logitkit_adapters.vllm.internals import is_missing, report_internals
from logitkit_adapters.vllm.parameters import asked
from logitkit_adapters.vllm.request_checks import install_request_checks
from logitkit_adapters.vllm.settings import settings, vllm_limits
from logitkit_adapters.vllm.watching import check_request, install_following, is_configured, watch_of, watched

__all__ = ["install"]

_logger = logging.getLogger(__name__)

# A configuration of up to this many characters that compiles nothing is read faster than another process could be asked.
SHORT = 1024

_compilers: weakref.WeakKeyDictionary[Any, Compiler] = weakref.WeakKeyDictionary()

# The processes that were started with an engine.
_forks: weakref.WeakKeyDictionary[Any, ForkServer] = weakref.WeakKeyDictionary()

# Keeps tasks alive until they are done.
_starts: set[asyncio.Task[None]] = set()


@functools.cache
def install() -> None:
    """Change vLLM's front end, once per process.

    vLLM calls this when it starts, as one of its general plugins; if these are off, the import of the plugin calls it. Parts
    that a release of vLLM lacks are left out, as `internals` says.
    """
    report_internals()
    _install_waiting()
    install_client_notes()
    install_following()
    install_request_checks()
    install_error_events()


def _install_waiting() -> None:
    if not is_missing("AsyncLLM.add_request"):
        from vllm.v1.engine.async_llm import AsyncLLM

        AsyncLLM.add_request = _waiting(AsyncLLM.add_request)
        AsyncLLM.__init__ = _starting(AsyncLLM.__init__)


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


def _starting(original: Callable[..., None]) -> Callable[..., None]:
    """Let the processes that compile start with the engine, as starting them takes a first request seconds."""

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - its name
        forks = ForkServer()
        if settings().enabled:
            forks.start()
        try:
            original(self, *args, **kwargs)
        except BaseException:
            forks.kill()
            raise
        _forks[self] = forks
        weakref.finalize(self, forks.kill)
        with suppress(RuntimeError):  # without an event loop, they start with the first request
            task = asyncio.get_running_loop().create_task(_start(self))
            _starts.add(task)
            task.add_done_callback(_starts.discard)

    return __init__


async def _start(engine: Any) -> None:
    try:
        if settings().enabled:
            (await _compiler_of(engine)).start()
    except LogitkitError as error:
        # An engine that generates says so too, when it loads the plugin.
        _logger.debug("configurations cannot be compiled: %s", error)


async def _admit(engine: Any, params: Any) -> None:
    """Wait for the verdict on a request's configuration, which `validate_params` then finds."""
    try:
        what = asked(params, engine.vllm_config)
    except ConfigurationError:
        return  # `validate_params` raises it again, where vLLM expects it
    if what is None or what.text is None:
        return
    compiler, client = await _compiler_of(engine), current_client()
    known = configurations_of(engine.vllm_config).verdicts.get(what)
    # The workers of this engine must find the automata too.
    if (known is None or not compiler.files.use(known.files, client)) and not _is_cheap(what.text):
        try:
            await compiler.verdict(what, client)
        except Unavailable as error:
            retry_after(error.seconds)
            raise http_error(str(error), HTTPStatus.SERVICE_UNAVAILABLE) from None
        except CompileFailed as error:
            raise http_error(str(error), HTTPStatus.INTERNAL_SERVER_ERROR) from None


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
    """Return the compiler of an engine, which is created for the first request if not before."""
    if engine not in _compilers:
        # This reads the vocabulary, which may take a second. Meanwhile, another request may create the compiler.
        configurations = await asyncio.to_thread(configurations_of, engine.vllm_config)
        if engine not in _compilers:
            files = shared_by(configurations.vocabulary).files
            _compilers[engine] = Compiler(
                configurations.vocabulary,
                None if files is None else files.folder,
                configurations.verdicts.put,
                vllm_limits(),
                device=configurations.device,
                forks=_forks.get(engine),
            )
            weakref.finalize(engine, _compilers[engine].close)
    return _compilers[engine]
