"""Compiles the configurations of a server's requests in separate processes: each once, while the clients that wait take turns.

Each configuration begins in a process for quick ones. If it takes longer than most, it becomes slow: it continues with low
priority, or waits until another slow one is done. So it delays others by a short time only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from logitkit.vocabulary import Vocabulary
from logitkit_adapters.admission.asked import Asked
from logitkit_adapters.admission.clients import NOBODY, Client
from logitkit_adapters.admission.compile_process import Setup
from logitkit_adapters.admission.compiled import KeptFiles
from logitkit_adapters.admission.fork_server import CompileProcess, Ended, ForkServer, NotStarted, Slow
from logitkit_adapters.admission.jobs import QUICK, Job, Jobs, Unavailable
from logitkit_adapters.admission.settings import ServerSettings
from logitkit_adapters.admission.verdicts import Verdict

__all__ = ["CompileFailed", "Compiler"]

# How many processes try a configuration: the first one may have ended for another reason.
TRIES = 2

CLOSED = "the server is shutting down"


class CompileFailed(Exception):
    """A configuration was not compiled because of an error that is not its fault."""


class Compiler:
    """Compiles for one server, in its event loop.

    Args:
        vocabulary: The engine's vocabulary.
        folder: The folder for automata, or None.
        done: Called with each verdict.
        settings: The limits of the server. There are `processes` for quick configurations, and half as many for slow ones.
        most_characters: The maximum length that waiting configurations may have together, in characters and banned ids.
        device: The type of the engine's device, or None if unknown.
        forks: Starts the processes. None: a new one.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        folder: Path | None,
        done: Callable[[Asked, Verdict], None],
        settings: ServerSettings,
        *,
        most_characters: int = 8 * 2**20,
        device: str | None = None,
        forks: ForkServer | None = None,
    ) -> None:
        self.files = KeptFiles(folder)
        self._setup = Setup(vocabulary, folder, device, QUICK, settings)
        self._forks = forks or ForkServer()
        self._remember = done
        self._patience, processes = settings.seconds, settings.processes
        self._jobs = Jobs(settings.waiting, most_characters, processes)
        self._idle: list[CompileProcess] = []
        # How many processes there are, starting ones included, and how many there may be.
        self._quick, self._slow = 0, 0
        self._most_quick, self._most_slow = processes, max(1, processes // 2)
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def start(self) -> None:
        """Start the processes before the first configuration comes."""
        self._schedule()

    async def verdict(self, what: Asked, client: Client = NOBODY) -> Verdict:
        """Return the verdict on a configuration, compiled once for all callers that wait for it.

        A cancelled caller leaves the queue; so does its configuration, unless another caller waits for it.

        Args:
            what: The configuration.
            client: The client that asks.

        Raises:
            Unavailable: Too many configurations wait, or the process does not start.
            CompileFailed: The process met an error that is not the configuration's fault.
        """
        if self._closed:
            raise Unavailable(CLOSED)
        place = self._jobs.place(what, client)
        try:
            self._schedule()
            # A cancelled caller must not cancel what others wait for.
            return await asyncio.shield(place.verdict)
        finally:
            self._jobs.leave(place)

    def _schedule(self) -> None:
        """Pass waiting configurations to processes, and start those that are missing."""
        if self._closed:
            for process in self._idle:
                process.close()
            return
        while self._slow < self._most_slow and (job := self._jobs.next(slow=True)):
            self._slow += 1
            self._run(self._compile_slowly(job))
        for process in [process for process in self._idle if process.has_ended]:
            process.close()
            self._idle.remove(process)
            self._quick -= 1
        while self._idle and (job := self._jobs.next(slow=False)):
            self._run(self._compile(job, self._idle.pop()))
        while self._quick < self._most_quick:
            self._quick += 1
            self._run(self._add_process())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._loop = asyncio.get_running_loop()
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _add_process(self) -> None:
        try:
            self._idle.append(await self._forks.fork(self._setup))
        except NotStarted as error:
            self._quick -= 1
            if not self._quick:
                self._jobs.fail(Unavailable(str(error)), *self._jobs.waiting)
        else:
            self._schedule()

    async def _compile(self, job: Job, process: CompileProcess) -> None:
        """Let a process for quick configurations compile one, or find out that it is slow."""
        try:
            answer = await process.answer(job.what, slow=False)
        except Slow:
            # Its priority is low now, so another process takes its place.
            self._quick -= 1
            job.slow = True
            if self._slow < self._most_slow:
                self._slow += 1
                self._schedule()
                await self._compile_slowly(job, process)
            else:
                self._jobs.wait_again(job)
        except Ended as error:
            self._quick -= 1
            self._try_again(job, error)
        else:
            self._idle.append(process)
            self._finish(job, answer)
        finally:
            if process not in self._idle:
                process.close()
        self._schedule()

    async def _compile_slowly(self, job: Job, process: CompileProcess | None = None) -> None:
        """Compile a slow configuration, in the process that has begun with it or in a new one."""
        try:
            if process is None:
                process = await self._forks.fork(self._setup)
                answer = await process.answer(job.what, slow=True)
            else:
                answer = await process.go_on()
        except NotStarted as error:
            self._jobs.wait_again(job)
            self._jobs.fail(Unavailable(str(error)), job)
        except Ended as error:
            self._try_again(job, error)
        else:
            self._finish(job, answer)
        finally:
            self._slow -= 1
            if process is not None:
                process.close()
        self._schedule()

    def _try_again(self, job: Job, error: Ended) -> None:
        job.tries += 1
        if error.seconds >= self._patience:
            refusal = f"compiling took more than {self._patience} seconds; give a smaller configuration"
        elif job.tries == TRIES:
            refusal = f"compiling ended its process {TRIES} times; give a smaller configuration"
        else:
            self._jobs.wait_again(job)
            return
        self._finish(job, Verdict(refusal))

    def _finish(self, job: Job, answer: Verdict | str) -> None:
        """Answer all that wait for a configuration."""
        self._jobs.finish(job)
        if isinstance(answer, str):
            self._jobs.fail(CompileFailed(f"the configuration could not be compiled: {answer}"), job)
            return
        self._remember(job.what, answer)
        for client in job.places or [NOBODY]:
            self.files.use(answer.files, client)
        for place in job.places.values():
            place.verdict.set_result(answer)

    def close(self) -> None:
        """End the processes; waiting callers get an error. Any thread may call this."""
        self._closed = True
        self._forks.kill()
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._schedule()
        self._jobs.fail(Unavailable(CLOSED), *self._jobs)
