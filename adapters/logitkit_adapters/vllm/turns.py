"""Waiting things, which leave as their clients take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from logitkit_adapters.vllm.clients import Client

__all__ = ["Turns"]


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
