"""Compiles configurations in a separate process: one at a time, and each once, even if several requests wait for it."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from logitkit.vocabulary import Vocabulary
from logitkit_adapters.vllm.configurations import Verdict
from logitkit_adapters.vllm.parameters import Asked

__all__ = ["CompileFailed", "Compiler", "Unavailable"]

_logger = logging.getLogger(__name__)

# Its `sys.path` is that of this process, which may differ from the environment's.
COMMAND = (
    sys.executable,
    "-c",
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from logitkit_adapters.vllm.compile_process import main; main()",
)

# How many processes try a configuration: the first one may have ended for another reason.
TRIES = 2

# The maximum time for a process to start, in seconds.
START_PATIENCE = 180.0

CLOSED = "the server is shutting down"


class Unavailable(Exception):
    """Nothing can be compiled now: too many configurations wait, or the process does not start."""


class CompileFailed(Exception):
    """A configuration was not compiled because of an error that is not its fault."""


class _Job(NamedTuple):
    future: Future[Verdict]
    waiting: list[object]
    characters: int


class Compiler:
    """Compiles for one server. It starts its process when it is first needed, and again if that has ended.

    Args:
        vocabulary: The engine's vocabulary.
        folder: The folder for automata, or None.
        done: Called with each verdict, in a thread.
        most: The maximum number of waiting configurations.
        most_characters: The maximum number of characters that they may have together.
        patience: The time after which a configuration is refused, in seconds.
        command: The command of the process, without its arguments: the paths of modules, and the number of its connection.
        device: The type of the engine's device, or None if unknown.
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
        self._jobs: dict[Hashable, _Job] = {}
        # Reentrant, because futures that are cancelled while it is held call back.
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._closed = False
        # One thread, which waits for the process: its queue is the queue of configurations.
        self._thread = ThreadPoolExecutor(1, "logitkit-compiler")

    async def verdict(self, what: Asked) -> Verdict:
        """Return the verdict on a configuration, compiled once for all callers that wait for it.

        A cancelled caller leaves the queue; so does its configuration, unless another caller waits for it.

        Raises:
            Unavailable: Too many configurations wait, or the process does not start.
            CompileFailed: The process met an error that is not the configuration's fault.
        """
        assert what.text is not None
        key, caller = what.key, object()
        with self._lock:
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = self._submitted(what)
                job.future.add_done_callback(lambda _: self._forget(key, job))
            job.waiting.append(caller)
        try:
            # A cancelled caller must not cancel the job of others.
            return await asyncio.shield(asyncio.wrap_future(job.future))
        except asyncio.CancelledError:
            if self._closed and job.future.cancelled():
                raise Unavailable(CLOSED) from None
            raise
        finally:
            with self._lock:
                job.waiting.remove(caller)
                if not job.waiting:
                    job.future.cancel()  # has no effect once it has begun

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

    def _forget(self, key: Hashable, job: _Job) -> None:
        with self._lock:
            if self._jobs.get(key) is job:
                del self._jobs[key]

    def _compile(self, what: Asked) -> Verdict:
        """Return the verdict of the process; runs in the thread."""
        answer: Verdict | str
        for _ in range(TRIES):
            connection = self._started()
            try:
                connection.send(what.key)
                answer = _received(connection, self._patience)
            except TimeoutError:
                self._end()
                answer = Verdict(f"compiling took more than {self._patience:g} seconds; give a smaller configuration")
            except (EOFError, OSError):
                _logger.warning("the process that compiles configurations has ended, and is started again")
                self._end()
                continue
            break
        else:
            answer = Verdict(f"compiling ended its process {TRIES} times; give a smaller configuration")
        if isinstance(answer, str):
            raise CompileFailed(f"the configuration could not be compiled: {answer}")
        self._done(what, answer)
        return answer

    def _started(self) -> Connection:
        """Return the connection to the process, after it has read the vocabulary."""
        if self._closed:
            raise Unavailable(CLOSED)
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._connection is None:
            self._connection, other = Pipe()
            try:
                with other:
                    # In its own session, because signals from the terminal are for the server.
                    self._process = subprocess.Popen(  # noqa: S603 - this Python
                        [*self._command, str(other.fileno())],
                        stdin=subprocess.DEVNULL,
                        stdout=sys.__stderr__,
                        pass_fds=[other.fileno()],
                        start_new_session=True,
                    )
                # Not `send`, which would share tensors between the processes if `torch.multiprocessing` is in use.
                self._connection.send_bytes(pickle.dumps(self._given))
                _received(self._connection, START_PATIENCE)
            except (OSError, EOFError) as error:
                self._end()
                raise Unavailable(
                    f"the process that compiles configurations does not start ({type(error).__name__}: {error}); see its output "
                    "in the server's log"
                ) from None
        return self._connection

    def _end(self) -> None:
        process, self._process = self._process, None
        connection, self._connection = self._connection, None
        if process is not None:
            process.kill()
            process.wait()
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """End the process; waiting callers get an error."""
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
            # In the thread, which may be reading from the connection.
            self._thread.submit(self._end)
        except RuntimeError:  # when Python ends, there are no threads any more
            self._end()
        self._thread.shutdown(wait=False)


def _received(connection: Connection, patience: float) -> Any:
    if not connection.poll(patience):
        raise TimeoutError(f"no answer in {patience:g} seconds")
    return connection.recv()
