"""The masks of visited states, bounded in bytes."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import TypeAlias

from logitkit.automata.row_mask import RowMask

__all__ = ["MaskCache"]

# Slot, generation and state.
Key: TypeAlias = tuple[int, int, Hashable]

# What it takes to keep one more state whose mask is here already.
ENTRY_BYTES = 200


class MaskCache:
    """Masks by the state that they belong to; the least recently used go first. States that allow the same share one.

    Not thread-safe: the bank that has it is.

    Args:
        limit: Most bytes that the masks and their keys may take; one is kept whatever it takes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        self._masks: OrderedDict[Key, RowMask] = OrderedDict()
        # How many states each mask is that of, by identity: it is counted once.
        self._uses: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._masks)

    def get(self, key: Key) -> RowMask | None:
        """Return the mask of a state, now the most recently used, if it is here."""
        found = self._masks.get(key)
        if found is not None:
            self._masks.move_to_end(key)
        return found

    def put(self, key: Key, mask: RowMask) -> None:
        """Keep a mask, and drop others where there is no room."""
        self.drop(key)
        # Counted first: a collection may call `drop` in the midst of this.
        self._uses[id(mask)] += 1
        if self._uses[id(mask)] == 1:
            self.nbytes += mask.nbytes
        self.nbytes += ENTRY_BYTES
        self._masks[key] = mask
        while self.nbytes > self.limit and len(self._masks) > 1:
            self.drop(next(iter(self._masks)))

    def drop(self, key: Key) -> None:
        """Forget the mask of a state, if it is here."""
        mask = self._masks.pop(key, None)
        if mask is None:
            return
        self.nbytes -= ENTRY_BYTES
        self._uses[id(mask)] -= 1
        if not self._uses[id(mask)]:
            del self._uses[id(mask)]
            self.nbytes -= mask.nbytes

    def drop_slot(self, slot: int) -> None:
        """Forget all masks of a slot."""
        # Over a copy: a collection in the midst of this may free another slot.
        for key in list(self._masks):
            if key[0] == slot:
                self.drop(key)

    def items(self) -> list[tuple[Key, RowMask]]:
        """Return the states whose masks are here, and these."""
        return [*self._masks.items()]
