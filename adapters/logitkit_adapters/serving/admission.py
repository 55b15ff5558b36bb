"""Checks and compiles the configurations of a server's requests, with `logitkit_adapters.admission`.

A configuration is compiled in another process, whose time is limited, and which writes its automata to files. So neither the
threads that generate nor the event loop of a server wait for it. Where a process cannot fork safely, as on macOS and Windows, one
thread compiles, within the same limits of work.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
import uuid
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from http import HTTPStatus
from typing import Any

from logitkit.errors import LogitkitError
from logitkit.protocol.processor import Processor
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary import Vocabulary
from logitkit_adapters.admission.asked import Asked
from logitkit_adapters.admission.clients import NOBODY, Client
from logitkit_adapters.admission.compiled import files_of
from logitkit_adapters.admission.compiler import CLOSED, CompileFailed, Compiler
from logitkit_adapters.admission.configurations import AUTOMATON_BYTES, Configurations
from logitkit_adapters.admission.jobs import Unavailable
from logitkit_adapters.admission.settings import server_settings
from logitkit_adapters.admission.verdicts import Verdict
from logitkit_adapters.serving.refusals import RefusedRequest
from logitkit_adapters.serving.requests import ServedRequest

__all__ = ["Admission"]

# The configuration itself, in messages about it.
CONFIG = re.compile(r"\bconfig(?=\[| has | is )|^config(?=: )")

# How messages about a place in a schema begin, by the kind of the configuration that the schema is in.
PLACES = {"json_schema": re.compile(r"'[^']+' at #"), "tools": re.compile(r"'[^']+' at tools\[")}

FORKS = hasattr(os, "fork") and sys.platform != "darwin"


class Admission:
    """Turns the configurations of requests into processors.

    Args:
        vocabulary: The vocabulary of the model.
        forks: Whether other processes compile; otherwise one thread of this process does.
    """

    def __init__(self, vocabulary: Vocabulary, *, forks: bool = FORKS) -> None:
        self._configurations = Configurations(vocabulary, device="cpu")
        chosen = server_settings()
        self._compiler: Compiler | None = None
        self._thread = None if forks else ThreadPoolExecutor(1, "logitkit-compile")
        # Requests that wait for the thread.
        self._places = threading.Semaphore(chosen.waiting)
        shared = shared_by(vocabulary)
        shared.cached_bytes = AUTOMATON_BYTES
        if forks:
            # The processes write automata to files, which this process reads.
            shared.files = files_of(vocabulary, uuid.uuid4().hex)
            self._compiler = Compiler(
                vocabulary,
                None if shared.files is None else shared.files.folder,
                self._configurations.verdicts.put,
                chosen,
                device="cpu",
            )
            weakref.finalize(self, self._compiler.close)
            _loop().call_soon_threadsafe(self._compiler.start)

    def processor(self, asked: ServedRequest, client: Client = NOBODY) -> Processor[Any] | None:
        """Return the processor of a request, once it is compiled. The calling thread waits.

        Args:
            asked: The request.
            client: The client that sent it; clients take turns.

        Raises:
            RefusedRequest: The configuration is not allowed, or cannot be compiled now.
        """
        refusal: RefusedRequest | None = None
        for what in _configurations_of(asked):
            with _refusing():
                verdict = self._configurations.verdicts.get(what) or self._verdict(what, client).result()
            if verdict.refusal is None:
                return self._made(what)
            refusal = _refused(verdict.refusal, asked)
        if refusal is not None:
            raise refusal
        return None

    async def processor_async(self, asked: ServedRequest, client: Client = NOBODY) -> Processor[Any] | None:
        """Do as `processor` does, in an event loop. No thread waits, so slow configurations do not delay others.

        Args:
            asked: The request.
            client: The client that sent it.

        Raises:
            RefusedRequest: As `processor` does.
        """
        refusal: RefusedRequest | None = None
        for what in _configurations_of(asked):
            with _refusing():
                verdict = self._configurations.verdicts.get(what)
                if verdict is None:
                    verdict = await asyncio.wrap_future(self._verdict(what, client))
            if verdict.refusal is None:
                return await asyncio.to_thread(self._made, what)
            refusal = _refused(verdict.refusal, asked)
        if refusal is not None:
            raise refusal
        return None

    def _made(self, what: Asked) -> Processor[Any]:
        with _refusing():
            return self._configurations.processor(what)

    def _verdict(self, what: Asked, client: Client) -> Future[Verdict]:
        if self._compiler is not None:
            return asyncio.run_coroutine_threadsafe(self._compiler.verdict(what, client), _loop())
        assert self._thread is not None
        if not self._places.acquire(blocking=False):
            raise Unavailable(f"{server_settings().waiting} configurations wait to be compiled; try again later")
        try:
            found = self._thread.submit(self._configurations.judge, what)
        except RuntimeError:  # the thread has ended
            raise Unavailable(CLOSED) from None
        found.add_done_callback(lambda _: self._places.release())
        return found

    def close(self) -> None:
        """End the processes or the thread that compile."""
        if self._compiler is not None:
            self._compiler.close()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)


def _configurations_of(asked: ServedRequest) -> list[Asked]:
    """Return the configurations of a request."""
    # The EOS is one of the tokens that the engine counts.
    limit = None if asked.max_tokens is None else max(1, asked.max_tokens - 1)
    texts = [json.dumps(config) for config in asked.configs]
    return [Asked(text, text, limit if '"closing"' in text or "forced_eos" in text else None) for text in texts]


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn the errors of compiling into refusals."""
    try:
        yield
    except Unavailable as error:
        status = HTTPStatus.SERVICE_UNAVAILABLE
        raise RefusedRequest(str(error), status=status, retry_after=error.seconds) from None
    except CompileFailed as error:
        raise RefusedRequest(str(error), status=HTTPStatus.INTERNAL_SERVER_ERROR) from None
    except LogitkitError as error:  # such as a bank that is full, which passes
        raise RefusedRequest(str(error), status=HTTPStatus.SERVICE_UNAVAILABLE, retry_after=10) from None


def _refused(message: str, asked: ServedRequest) -> RefusedRequest:
    """Return the refusal of a configuration, with the fields of the request in place of keys of the configuration."""
    for kind, field in asked.names.items():
        if f"config[{kind!r}]" in message:
            return RefusedRequest(message.replace(f"config[{kind!r}]", field), field)
        # Either nothing else can be meant, or the place in the schema says it.
        if asked.configs[-1].keys() == {kind} or PLACES[kind].match(message):
            return RefusedRequest(f"{field}: {message}", field)
    return RefusedRequest(CONFIG.sub("logitkit", message), "logitkit")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of the thread that talks to the compiling processes."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="logitkit-admission", daemon=True).start()
    return loop
