"""Compiles the configurations of a server's requests in separate processes: each once, while the clients that wait take turns.

Each configuration begins in a process for quick ones. If it takes longer than most, it becomes slow: it continues with low
priority, or waits until another slow one is done. So it delays others by a short time only.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from logitkit.vocabulary import Vocabulary
from logitkit_adapters.vllm.clients import NOBODY, Client
from logitkit_adapters.vllm.compile_process import Setup
from logitkit_adapters.vllm.compiled import KeptFiles
from logitkit_adapters.vllm.fork_server import CompileProcess, Ended, ForkServer, NotStarted, Slow
from logitkit_adapters.vllm.parameters import Asked
from logitkit_adapters.vllm.turns import Turns
from logitkit_adapters.vllm.verdicts import Verdict

__all__ = ["CompileFailed", "Compiler", "Unavailable"]

# How many processes try a configuration: the first one may have ended for another reason.
TRIES = 2

# The processor time after which a configuration counts as slow, in seconds. Of 100 configurations of real requests, about 95 take
# less.
QUICK = 0.1

# The number of configurations whose mean time is an estimate for the next ones.
RECENT = 20

CLOSED = "the server is shutting down"


class Unavailable(Exception):
    """Nothing can be compiled now: too many configurations wait, or the process does not start.

    Args:
        message: The reason.
        seconds: After how many seconds another try makes sense.
    """

    def __init__(self, message: str, seconds: int = 10) -> None:
        super().__init__(message)
        self.seconds = seconds


class CompileFailed(Exception):
    """A configuration was not compiled because of an error that is not its fault."""


@dataclass(eq=False, slots=True)
class _Job:
    """A configuration that is not compiled yet.

    Args:
        what: The configuration.
        places: The places of the clients that wait for it.
        begun: Whether a process works on it.
        began: When it began to.
        slow: Whether it has been found to take long.
        tries: How many processes have ended while they worked on it.
    """

    what: Asked
    places: dict[Client, _Place] = field(default_factory=dict)
    begun: bool = False
    began: float = 0.0
    slow: bool = False
    tries: int = 0

    @property
    def characters(self) -> int:
        """The length of the configuration."""
        return len(self.what.text or "")


@dataclass(eq=False, slots=True)
class _Place:
    """A client's place in the queue; the first of a job's places whose turn comes is for all.

    Args:
        job: The configuration that it waits for.
        client: The client.
        verdict: The verdict, for which its callers wait.
        callers: The number of callers.
    """

    job: _Job
    client: Client
    verdict: asyncio.Future[Verdict]
    callers: int = 0


class Compiler:
    """Compiles for one server, in its event loop.

    Args:
        vocabulary: The engine's vocabulary.
        folder: The folder for automata, or None.
        done: Called with each verdict.
        most: The maximum number of waiting configurations.
        most_characters: The maximum number of characters that they may have together.
        patience: The time after which a configuration is refused, in seconds.
        processes: The number of processes for quick configurations. For slow ones, there are half as many.
        device: The type of the engine's device, or None if unknown.
        forks: Starts the processes. None: a new one.
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
        processes: int = 1,
        device: str | None = None,
        forks: ForkServer | None = None,
    ) -> None:
        self.files = KeptFiles(folder)
        self._setup = Setup(vocabulary, folder, device, QUICK, patience)
        self._forks = forks or ForkServer()
        self._remember = done
        self._most, self._most_characters = most, most_characters
        self._patience = patience
        self._jobs: dict[Hashable, _Job] = {}
        self._turns: Turns[_Place] = Turns()
        self._idle: list[CompileProcess] = []
        # How many processes there are, starting ones included, and how many there may be.
        self._quick, self._slow = 0, 0
        self._most_quick, self._most_slow = processes, max(1, processes // 2)
        # The mean time of recent configurations, in seconds.
        self._mean = QUICK
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
        place = self._place(what, client)
        try:
            # A cancelled caller must not cancel what others wait for.
            return await asyncio.shield(place.verdict)
        finally:
            place.callers -= 1
            if not place.callers and not place.verdict.done():
                self._leave(place)

    def _place(self, what: Asked, client: Client) -> _Place:
        """Return the place of a client for a configuration, with one more caller."""
        if self._closed:
            raise Unavailable(CLOSED)
        job = self._jobs.setdefault(what.key, _Job(what))
        place = job.places.get(client)
        if place is None:
            place = job.places[client] = _Place(job, client, asyncio.get_running_loop().create_future())
            if not job.begun:
                self._turns.put(place)
                self._make_room()
                self._schedule()
        place.callers += 1
        return place

    def _make_room(self) -> None:
        """Turn away the newest configurations of the client that has most, if too many wait."""
        while True:
            waiting = sum(place.job.characters for place in self._turns)
            if len(self._turns) <= self._most and (waiting <= self._most_characters or len(self._turns) == 1):
                return
            seconds = math.ceil(len(self._turns) * self._mean / self._most_quick)
            error = Unavailable(
                f"{len(self._turns)} configurations with {waiting} characters wait to be compiled; allowed are {self._most} with "
                f"{self._most_characters} characters. Try again in {seconds} seconds",
                seconds,
            )
            place = self._turns.last_of_largest(
                lambda place: 1 / max(1, self._most) + place.job.characters / self._most_characters
            )
            self._leave(place)
            place.verdict.set_exception(error)

    def _leave(self, place: _Place) -> None:
        job = place.job
        del job.places[place.client]
        if not job.begun:
            self._turns.remove(place)
            if not job.places:
                del self._jobs[job.what.key]

    def _next(self, slow: bool) -> _Job | None:
        """Return a configuration to work on."""
        place = self._turns.take(lambda place: place.job.slow == slow)
        if place is None:
            return None
        for other in place.job.places.values():
            if other is not place:
                self._turns.remove(other)
        place.job.begun, place.job.began = True, time.monotonic()
        return place.job

    def _schedule(self) -> None:
        """Pass waiting configurations to processes, and start those that are missing."""
        if self._closed:
            for process in self._idle:
                process.close()
            return
        while self._slow < self._most_slow and (job := self._next(slow=True)):
            self._slow += 1
            self._run(self._compile_slowly(job))
        for process in [process for process in self._idle if process.has_ended]:
            process.close()
            self._idle.remove(process)
            self._quick -= 1
        while self._idle and (job := self._next(slow=False)):
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
                self._fail([*self._turns], Unavailable(str(error)))
        else:
            self._schedule()

    async def _compile(self, job: _Job, process: CompileProcess) -> None:
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
                self._wait_again(job)
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

    async def _compile_slowly(self, job: _Job, process: CompileProcess | None = None) -> None:
        """Compile a slow configuration, in the process that has begun with it or in a new one."""
        try:
            if process is None:
                process = await self._forks.fork(self._setup)
                answer = await process.answer(job.what, slow=True)
            else:
                answer = await process.go_on()
        except NotStarted as error:
            del self._jobs[job.what.key]
            self._fail([*job.places.values()], Unavailable(str(error)))
        except Ended as error:
            self._try_again(job, error)
        else:
            self._finish(job, answer)
        finally:
            self._slow -= 1
            if process is not None:
                process.close()
        self._schedule()

    def _wait_again(self, job: _Job) -> None:
        job.begun = False
        for place in job.places.values():
            self._turns.put(place)
        if not job.places:
            del self._jobs[job.what.key]

    def _try_again(self, job: _Job, error: Ended) -> None:
        job.tries += 1
        if error.seconds >= self._patience:
            refusal = f"compiling took more than {self._patience:g} seconds; give a smaller configuration"
        elif job.tries == TRIES:
            refusal = f"compiling ended its process {TRIES} times; give a smaller configuration"
        else:
            self._wait_again(job)
            return
        self._finish(job, Verdict(refusal))

    def _finish(self, job: _Job, answer: Verdict | str) -> None:
        """Answer all that wait for a configuration."""
        self._jobs.pop(job.what.key, None)
        self._mean += (time.monotonic() - job.began - self._mean) / RECENT
        if isinstance(answer, str):
            self._fail([*job.places.values()], CompileFailed(f"the configuration could not be compiled: {answer}"))
            return
        self._remember(job.what, answer)
        for client in job.places or [NOBODY]:
            self.files.use(answer.files, client)
        for place in job.places.values():
            place.verdict.set_result(answer)

    def _fail(self, places: Sequence[_Place], error: Exception) -> None:
        for place in places:
            self._leave(place)
            place.verdict.set_exception(error)

    def close(self) -> None:
        """End the processes; waiting callers get an error. Any thread may call this."""
        self._closed = True
        self._forks.kill()
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._schedule()
        self._fail([place for job in self._jobs.values() for place in job.places.values()], Unavailable(CLOSED))
