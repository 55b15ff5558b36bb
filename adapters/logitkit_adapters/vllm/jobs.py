"""The configurations of a server that are not compiled yet, and the places of the clients that wait for them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from logitkit_adapters.vllm.clients import Client
from logitkit_adapters.vllm.parameters import Asked
from logitkit_adapters.vllm.turns import Turns
from logitkit_adapters.vllm.verdicts import Verdict

__all__ = ["QUICK", "Job", "Jobs", "Place", "Unavailable"]

# The processor time after which a configuration counts as slow, in seconds. Of 100 configurations of real requests, about 95 take
# less.
QUICK = 0.1

# The number of configurations whose mean time is an estimate for the next ones.
RECENT = 20


class Unavailable(Exception):
    """Nothing can be compiled now: too many configurations wait, or the process does not start.

    Args:
        message: The reason.
        seconds: After how many seconds another try makes sense.
    """

    def __init__(self, message: str, seconds: int = 10) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(eq=False, slots=True)
class Job:
    """A configuration that is not compiled yet.

    Args:
        what: The configuration.
        places: The places of the clients that wait for it.
        began: When a process began to work on it, or None if it waits.
        slow: Whether it has been found to take long.
        tries: How many processes have ended while they worked on it.
    """

    what: Asked
    places: dict[Client, Place] = field(default_factory=dict)
    began: float | None = None
    slow: bool = False
    tries: int = 0


@dataclass(eq=False, slots=True)
class Place:
    """A client's place in the queue; the first of a job's places whose turn comes is for all.

    Args:
        job: The configuration that it waits for.
        client: The client.
        verdict: The verdict, for which its callers wait.
        callers: The number of callers.
    """

    job: Job
    client: Client
    verdict: asyncio.Future[Verdict]
    callers: int = 0


class Jobs:
    """The jobs of a server, in its event loop. Those that wait are limited, and leave as their clients take turns.

    Args:
        most: The maximum number of places that wait.
        most_characters: The maximum length that their configurations may have together, in characters and banned ids.
        at_once: The number of jobs that are worked on at the same time.
    """

    def __init__(self, most: int, most_characters: int, at_once: int) -> None:
        self.most, self.most_characters, self.at_once = most, most_characters, at_once
        self._jobs: dict[Hashable, Job] = {}
        self._turns: Turns[Place] = Turns()
        # The mean time of recent jobs, in seconds.
        self._mean = QUICK

    def __iter__(self) -> Iterator[Job]:
        return iter([*self._jobs.values()])

    @property
    def waiting(self) -> list[Job]:
        """The jobs that no process works on."""
        return [job for job in self if job.began is None]

    def place(self, what: Asked, client: Client) -> Place:
        """Return the place of a client for a configuration, with one more caller."""
        job = self._jobs.setdefault(what.key, Job(what))
        place = job.places.get(client)
        if place is None:
            place = job.places[client] = Place(job, client, asyncio.get_running_loop().create_future())
            if job.began is None:
                self._turns.put(place)
                self._make_room()
        place.callers += 1
        return place

    def _make_room(self) -> None:
        """Turn away the newest configurations of the client that has most, if too many wait."""
        while True:
            waiting = sum(place.job.what.length for place in self._turns)
            if len(self._turns) <= self.most and (waiting <= self.most_characters or len(self._turns) == 1):
                return
            seconds = math.ceil(len(self._turns) * self._mean / self.at_once)
            error = Unavailable(
                f"{len(self._turns)} configurations with {waiting} characters wait to be compiled; allowed are {self.most} with "
                f"{self.most_characters} characters. Try again in {seconds} seconds",
                seconds,
            )
            place = self._turns.last_of_largest(
                lambda place: 1 / max(1, self.most) + place.job.what.length / self.most_characters
            )
            self._leave(place)
            place.verdict.set_exception(error)

    def leave(self, place: Place) -> None:
        """Let a caller go; the last one takes the place with it, and the last place a job that waits."""
        place.callers -= 1
        if not place.callers and not place.verdict.done():
            self._leave(place)

    def _leave(self, place: Place) -> None:
        job = place.job
        del job.places[place.client]
        if job.began is None:
            self._turns.remove(place)
            if not job.places:
                del self._jobs[job.what.key]

    def next(self, slow: bool) -> Job | None:
        """Return the next slow or quick job to work on, and note that it begins."""
        place = self._turns.take(lambda place: place.job.slow == slow)
        if place is None:
            return None
        for other in place.job.places.values():
            if other is not place:
                self._turns.remove(other)
        place.job.began = time.monotonic()
        return place.job

    def wait_again(self, job: Job) -> None:
        """Put a job that began back into the queue, if anybody still waits for it."""
        job.began = None
        for place in job.places.values():
            self._turns.put(place)
        if not job.places:
            del self._jobs[job.what.key]

    def finish(self, job: Job) -> None:
        """Remove a job that began, and note its time."""
        assert job.began is not None
        del self._jobs[job.what.key]
        self._mean += (time.monotonic() - job.began - self._mean) / RECENT

    def fail(self, error: Exception, *jobs: Job) -> None:
        """Answer all that wait for some jobs with an error."""
        for job in jobs:
            for place in [*job.places.values()]:
                self._leave(place)
                place.verdict.set_exception(error)
