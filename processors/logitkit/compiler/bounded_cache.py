"""A cache of recent results, bounded in bytes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

__all__ = ["BoundedCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# The bytes that an entry takes in addition to those that the caller states.
ENTRY_BYTES = 300


class BoundedCache(dict[K, V]):
    """A dict that forgets everything when it has grown too large: what is asked for again is soon back.

    Args:
        limit: Most bytes that it may take.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self.nbytes = 0

    def keep(self, key: K, value: V, nbytes: int) -> V:
        """Keep a value that takes, with its key, `nbytes` bytes, and return it."""
        if self.nbytes + nbytes + ENTRY_BYTES > self.limit:
            self.clear()
            self.nbytes = 0
        self.nbytes += nbytes + ENTRY_BYTES
        self[key] = value
        return value
