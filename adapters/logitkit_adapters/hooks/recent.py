"""A cache with a memory limit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Recent"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# The size of an entry in addition to its key and value, in bytes.
ENTRY_BYTES = 400


class Recent(Generic[K, V]):
    """A thread-safe cache with least-recently-used eviction, limited in bytes.

    Args:
        limit: The maximum size of keys and values in bytes.

    Example:
        >>> cache = Recent[str, int](limit=2 * 500)
        >>> for key in ("a", "b", "c"):
        ...     cache.put(key, 1, nbytes=100)
        >>> cache.get("a"), cache.get("c"), len(cache)
        (None, 1, 2)
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, nbytes: int) -> None:
        """Store a value with the given size; a value that exceeds the limit on its own is not stored.

        Args:
            key: The key.
            value: The value.
            nbytes: An estimate of the memory that the key and the value take.
        """
        size = nbytes + ENTRY_BYTES
        dropped = []
        with self._lock:
            before = self._entries.pop(key, None)
            if before is not None:
                self.nbytes -= before[1]
                dropped.append(before)
            if size <= self.limit:
                self._entries[key] = value, size
                self.nbytes += size
            while self.nbytes > self.limit:
                dropped.append(self._entries.popitem(last=False)[1])
                self.nbytes -= dropped[-1][1]
        # Outside the lock, because this runs the finalisers of the values.
        del dropped

    def __len__(self) -> int:
        return len(self._entries)
