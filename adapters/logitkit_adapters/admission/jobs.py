"""The configurations of a server that are not compiled yet, and the places of the clients that wait for them.

Waiting things, which leave as their clients take turns.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from logitkit_adapters.admission.asked import Asked
from logitkit_adapters.admission.clients import Client
from logitkit_adapters.admission.verdicts import Verdict

__all__ = ["QUICK", "Job", "Jobs", "Place", "Turns", "Unavailable"]


class Waiting(Protocol):
    """Something that waits for a client."""

    @property
    def client(self) -> Client:
        """The client."""
        ...


T = TypeVar("T", bound=Waiting)
K = TypeVar("K")
V = TypeVar("V")


class Turns(Generic[T]):
    """A queue in which addresses take turns, and so do the clients of an address; those of one client leave in order.

    However many things a client has here, another one waits for one of them at most. And however many API keys it uses, clients
    at other addresses do not wait longer.

    Example:
        >>> from typing import NamedTuple
        >>> class Job(NamedTuple):
        ...     client: Client
        ...     name: str
        >>> turns = Turns[Job]()
        >>> for address, name in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")]:
        ...     turns.put(Job(Client(address), name))
        >>> [turns.take().name for _ in range(4)]
        ['a1', 'b1', 'a2', 'a3']
    """

    def __init__(self) -> None:
        # In the order of their turns. None of them is empty.
        self._waiting: dict[str, dict[bytes, list[T]]] = {}

    def __iter__(self) -> Iterator[T]:
        return (one for keys in self._waiting.values() for waiting in keys.values() for one in waiting)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def put(self, one: T) -> None:
        """Add something, as the last of its client."""
        self._waiting.setdefault(one.client.address, {}).setdefault(one.client.key, []).append(one)

    def take(self, suits: Callable[[T], bool] = lambda _: True) -> T | None:
        """Remove and return the next that suits, or None. Its client and its address have their next turns after all others."""
        found = next(filter(suits, self), None)
        if found is not None:
            keys = self._waiting[found.client.address]
            waiting = keys[found.client.key]
            waiting.remove(found)
            _to_the_end(keys, found.client.key)
            _to_the_end(self._waiting, found.client.address)
        return found

    def remove(self, one: T) -> None:
        """Remove something that is here."""
        keys = self._waiting[one.client.address]
        keys[one.client.key].remove(one)
        if not keys[one.client.key]:
            del keys[one.client.key]
        if not keys:
            del self._waiting[one.client.address]

    def last_of_largest(self, size: Callable[[T], float]) -> T:
        """Return the newest thing of the client that has most, among those at the address that has most.

        Args:
            size: The size of a thing.
        """
        keys = max(self._waiting.values(), key=lambda keys: sum(size(one) for all_ in keys.values() for one in all_))
        return max(keys.values(), key=lambda waiting: sum(map(size, waiting)))[-1]


def _to_the_end(names: dict[K, V], name: K) -> None:
    """Move a name to the end, or remove it if nothing of it is left."""
    left = names.pop(name)
    if left:
        names[name] = left


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
