"""A cache of the masks of visited states, with a memory limit."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import TypeAlias

from logitkit.runtime.row_mask import RowMask

__all__ = ["MaskCache"]

# Slot, generation and state.
Key: TypeAlias = tuple[int, int, Hashable]

# The cost of one more state whose mask is already cached.
ENTRY_BYTES = 200


class MaskCache:
    """Masks by state, with least-recently-used eviction. States that allow the same tokens share one mask.

    Not thread-safe; the registry that owns it is. Code that looks up a mask in `visited` moves it to the end, as the most
    recently used one.

    Args:
        limit: The maximum size of the masks and their keys in bytes; one mask is kept whatever its size.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        self.visited: OrderedDict[Key, RowMask] = OrderedDict()
        # The number of states that share each mask, by identity: a mask counts once.
        self._uses: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self.visited)

    def put(self, key: Key, mask: RowMask) -> None:
        """Cache a mask, and evict others if the limit is exceeded."""
        self.drop(key)
        # Counted first, because a garbage collection may call `drop` during this method.
        self._uses[id(mask)] += 1
        if self._uses[id(mask)] == 1:
            self.nbytes += mask.nbytes
        self.nbytes += ENTRY_BYTES
        self.visited[key] = mask
        while self.nbytes > self.limit and len(self.visited) > 1:
            self.drop(next(iter(self.visited)))

    def drop(self, key: Key) -> None:
        """Remove the mask of a state, if it is cached."""
        mask = self.visited.pop(key, None)
        if mask is None:
            return
        self.nbytes -= ENTRY_BYTES
        self._uses[id(mask)] -= 1
        if not self._uses[id(mask)]:
            del self._uses[id(mask)]
            self.nbytes -= mask.nbytes

    def drop_slot(self, slot: int) -> None:
        """Remove all masks of a slot."""
        # A copy, because a garbage collection during the loop may free another slot.
        for key in list(self.visited):
            if key[0] == slot:
                self.drop(key)
