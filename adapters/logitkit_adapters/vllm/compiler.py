"""Has configurations compiled by a process of its own: one at a time, each once, however many requests wait for it."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from logitkit.vocabulary import Vocabulary
from logitkit_adapters.vllm.compile_messages import READY, Answer, read_answer, write_question
from logitkit_adapters.vllm.configurations import Verdict
from logitkit_adapters.vllm.parameters import Asked

__all__ = ["CompileFailed", "Compiler", "Unavailable"]

_logger = logging.getLogger(__name__)

# With the modules of this process, of which `sys.path` may not be the environment's.
COMMAND = (
    sys.executable,
    "-c",
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from logitkit_adapters.vllm.compile_process import main; main()",
)

# How often a configuration is given to a process: the first one may have ended for another reason.
TRIES = 2

# Seconds that a process may take to start.
START_PATIENCE = 180.0

CLOSED = "the server is shutting down"


class Unavailable(Exception):
    """Nothing can be compiled now: too many configurations wait, or the process does not start."""


class CompileFailed(Exception):
    """A configuration was not compiled because of an error that is not its own."""


class _ProcessEnded(Exception):
    pass


class _Job(NamedTuple):
    future: Future[Verdict]
    waiting: list[object]
    characters: int


class Compiler:
    """Compiles for one server. It starts its process when it is first needed, and again when that has ended.

    Args:
        vocabulary: The engine's.
        folder: Where automata go, or None.
        done: Takes each verdict, in a thread.
        most: Most configurations that may wait.
        most_characters: Most characters that those may have together.
        patience: Seconds after which a configuration is refused.
        command: What starts the process; the paths of modules are its last argument.
        device: The type of the engine's device, or None if it is not known.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        folder: Path | None,
        done: Callable[[Asked, Verdict], None],
        *,
        most: int = 64,
        most_characters: int = 8 * 2**20,
        patience: float = 60.0,
        command: Sequence[str] = COMMAND,
        device: str | None = None,
    ) -> None:
        self.folder = folder
        self._given = vocabulary, folder, device
        self._done = done
        self._most, self._most_characters = most, most_characters
        self._patience = patience
        self._command = [*command, json.dumps(sys.path)]
        self._jobs: dict[tuple[str, int | None], _Job] = {}
        # Futures that are cancelled under it call back into it.
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        # One thread, which waits for the process: its queue is the queue of configurations.
        self._thread = ThreadPoolExecutor(1, "logitkit-compiler")

    async def verdict(self, what: Asked) -> Verdict:
        """Return the verdict on a configuration, compiled once for all who ask meanwhile.

        A caller that is cancelled leaves the queue, and if nobody else waits for its configuration, so does that.

        Raises:
            Unavailable: Too many configurations wait, or the process cannot be had.
            CompileFailed: The process met an error that is not the configuration's.
        """
        assert what.text is not None
        key, caller = (what.text, what.tokens), object()
        with self._lock:
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = self._submitted(what)
                job.future.add_done_callback(lambda _: self._forget(key, job))
            job.waiting.append(caller)
        try:
            # A caller that is cancelled must not cancel what others wait for.
            return await asyncio.shield(asyncio.wrap_future(job.future))
        except asyncio.CancelledError:
            if self._closed and job.future.cancelled():
                raise Unavailable(CLOSED) from None
            raise
        finally:
            with self._lock:
                job.waiting.remove(caller)
                if not job.waiting:
                    job.future.cancel()  # without effect once it has begun

    def _submitted(self, what: Asked) -> _Job:
        if self._closed:
            raise Unavailable(CLOSED)
        waiting, length = sum(job.characters for job in self._jobs.values()), len(what.text or "")
        if len(self._jobs) >= self._most or (self._jobs and waiting + length > self._most_characters):
            raise Unavailable(
                f"{len(self._jobs)} configurations with {waiting} characters wait to be compiled; allowed are {self._most} with "
                f"{self._most_characters} characters. Try again later"
            )
        return _Job(self._thread.submit(self._compile, what), [], length)

    def _forget(self, key: tuple[str, int | None], job: _Job) -> None:
        with self._lock:
            if self._jobs.get(key) is job:
                del self._jobs[key]

    def _compile(self, what: Asked) -> Verdict:
        """Return the verdict of the process; runs in the thread."""
        for _ in range(TRIES):
            try:
                answer = self._asked(what)
            except TimeoutError:
                self._end()
                found = Verdict(f"compiling took more than {self._patience:g} seconds; give a smaller configuration")
                break
            except _ProcessEnded:
                _logger.warning("the process that compiles configurations has ended, and is started again")
                self._end()
                continue
            if answer.verdict is None:
                raise CompileFailed(f"the configuration could not be compiled: {answer.notice}")
            found = answer.verdict
            break
        else:
            found = Verdict(f"compiling ended its process {TRIES} times; give a smaller configuration")
        self._done(what, found)
        return found

    def _asked(self, what: Asked) -> Answer:
        process = self._started()
        assert process.stdin is not None
        try:
            write_question(process.stdin, what)
        except OSError:
            raise _ProcessEnded from None
        return self._answer(process, self._patience)

    def _started(self) -> subprocess.Popen[bytes]:
        """Return the process, which has read the vocabulary."""
        if self._closed:
            raise Unavailable(CLOSED)
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            try:
                # In a session of its own, as signals at the terminal are the server's.
                self._process = subprocess.Popen(  # noqa: S603 - this Python
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
                )
                assert self._process.stdin is not None
                pickle.dump(self._given, self._process.stdin)
                self._process.stdin.flush()
                ready = self._answer(self._process, START_PATIENCE)
            except (OSError, TimeoutError, _ProcessEnded) as error:
                self._end()
                raise Unavailable(
                    f"the process that compiles configurations does not start ({type(error).__name__}: {error}); "
                    "its output is in the server's log"
                ) from None
            assert ready.notice == READY
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], patience: float) -> Answer:
        assert process.stdout is not None
        # Not `select`, which takes no more than 1,024 open files.
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN)
        if not poll.poll(patience * 1000):
            raise TimeoutError(f"no answer in {patience:g} seconds")
        found = read_answer(process.stdout)
        if found is None:
            raise _ProcessEnded
        return found

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                try:
                    pipe.close()
                except OSError:
                    continue  # what was not written is lost with the process

    def close(self) -> None:
        """End the process; those who wait get an error."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for job in [*self._jobs.values()]:
                job.future.cancel()
        process = self._process
        if process is not None:
            process.kill()
        try:
            # Not here, as the thread may be reading what the process says.
            self._thread.submit(self._end)
        except RuntimeError:  # as Python ends, there are no threads any more
            self._end()
        self._thread.shutdown(wait=False)
