"""The items of an array that have been written, and the beginnings of items that only lead to these.

A row must never get stuck: if the items may be `"ab"`, `"ac"` and `"b"`, and the first two are used, then `"a` leads nowhere.
So a beginning is *used up* if each byte that may follow leads to a beginning that is used up, or completes an item that is used.

By hand, for these three items: after `"ab"`, its beginning `"ab` is used up as well, since only the quote may follow. `"a` is
not: `c` may follow. After `"ac"` it is. `"` is not, because of `"b"`. After that, it is, and so is the empty beginning: no item
is left, and the array may only end.

A number ends with what follows it, so it is kept with `END` after it: 1 may be used while 12 is not.

Beginnings are sorted, so those that begin with the current item stand side by side: a *range*, which becomes smaller with each
byte. After a few bytes it is mostly empty, and then nothing needs to be compared until the item ends.

Invariants: no beginning in `used_up` begins another one in it. All that lead nowhere else begin with one of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from logitkit.runtime.remembering.json_text import AFTER_NUMBER

__all__ = ["END", "MOST_BEGUN", "NEVER", "SIGN_OR_ZERO", "Harmless", "UsedItems"]

# Stands after the text of a number. No JSON text has this byte, nor that which is greater than all.
END, GREATEST = b"\0", b"\xff"

NEVER = 2**62

# The tokens whose next item is known to be harmless have at most this much of it.
MOST_BEGUN = 4
SIGN_OR_ZERO = b"-0"
# The most places and tokens that are kept.
MOST_KEPT = 1000

TokensOf: TypeAlias = Callable[[bytes], NDArray[np.int64]]


class Harmless(NamedTuple):
    """When a place or a token is harmless.

    Args:
        least: At least this many bytes of the current item stand before its last choice.
        begins: The most bytes of the next item in the token, or in the tokens of the place.
    """

    least: int
    begins: int


class UsedItems(NamedTuple):
    """The items of one array.

    Args:
        used_up: The shortest beginnings that lead to no item but used ones, sorted. A used item is one itself, unless a shorter
            one is.
        shortest: The length of the shortest of these.
        items: All used items, in the order in which they were written, where items of different places differ in kind.
        varied: Whether they do, as with `prefixItems`.
        harmless: Places where only tokens that go on with a used item are banned, and tokens after which the next item is not
            used up.
        going_on: For some beginnings, the ids of tokens that begin with what is left of those in `used_up`.
    """

    used_up: tuple[bytes, ...]
    shortest: int
    items: tuple[bytes, ...]
    varied: bool
    harmless: dict[Hashable, Harmless]
    going_on: dict[bytes, NDArray[np.int64]]

    @classmethod
    def none(cls, *, varied: bool) -> UsedItems:
        """Return no items, which differ in kind from place to place, or do not."""
        return cls((), NEVER, (), varied, {}, {})

    @property
    def is_exhausted(self) -> bool:
        """Whether no item is left."""
        return not self.shortest

    def keep_harmless(self, place: Hashable, when: Harmless) -> None:
        """Keep when a place or token is harmless; see `harmless`."""
        if len(self.harmless) >= MOST_KEPT:
            self.harmless.clear()
        self.harmless[place] = when

    def narrowed(self, low: int, high: int, depth: int, byte: int) -> tuple[int, int]:
        """Return the range of beginnings with one more byte, among those of a range, which share some bytes.

        Args:
            low: Where the range begins in `used_up`.
            high: Where it ends.
            depth: How many bytes are shared, less than the length of each.
            byte: The next byte.
        """
        used = self.used_up
        begun = used[low][:depth] + bytes((byte,))
        low = bisect_left(used, begun, low, high)
        return low, bisect_left(used, begun + GREATEST, low, high)

    def uses_up(self, low: int, high: int, depth: int, byte: int) -> bool:
        """Whether a byte after a range that shares some bytes leads to a beginning that is used up; see `narrowed`."""
        used = self.used_up
        begun = used[low][:depth] + bytes((byte,))
        at = bisect_left(used, begun, low, high)
        return at < high and used[at] == begun

    def leaves_others(self, item: bytes, following: int) -> bool:
        """Whether an item surely uses up no beginning but itself.

        Args:
            item: The item.
            following: How many bytes may follow where its last byte is written. Those that end a number lead to no other item
                than each other, and white space to none.
        """
        free, begun = following - 1 - len(AFTER_NUMBER), item[:-1]
        low = bisect_left(self.used_up, begun)
        high = bisect_left(self.used_up, begun + GREATEST, low)
        if free > high - low:
            return True
        # Each byte that may follow has one beginning of this length, or several longer ones.
        return free > sum(len(used) == len(item) for used in self.used_up[low:high])

    def with_item(
        self, item: bytes, following: Callable[[bytes], Iterable[bytes] | None] | None, tokens_of: TokensOf
    ) -> UsedItems:
        """Return the items with one more.

        Args:
            item: The item; a number with `END` after it.
            following: Returns what may follow a beginning of an item: bytes, and `END`; None where nothing is known. None:
                the item uses up no beginning but itself.
            tokens_of: Returns the ids of tokens that begin with a text.
        """
        last = item if following is None else self._used_up_by(item, following)
        low = bisect_left(self.used_up, last)
        high = low if last is item else bisect_left(self.used_up, last + GREATEST, low)
        # Another thread may add some in the meantime.
        going_on = dict(self.going_on)
        for begin, ids in going_on.items():
            if len(last) > len(begin) and last.startswith(begin) and len(more := tokens_of(last[len(begin) :])):
                going_on[begin] = np.concatenate([ids, more])
        # Harmless tokens have too few bytes of an item to complete this one. Those that write a number do not complete it, except
        # that a sign may only lead to -0, which is 0.
        if item[0] in SIGN_OR_ZERO:
            harmless = {}
        elif len(last) > MOST_BEGUN or (last is item and item[-1:] == END):
            harmless = self.harmless
        else:
            harmless = {place: when for place, when in [*self.harmless.items()] if when.begins < len(last)}
        return UsedItems(
            (*self.used_up[:low], last, *self.used_up[high:]),
            min(self.shortest, len(last)),
            (*self.items, item) if self.varied else (),
            self.varied,
            harmless,
            going_on,
        )

    def _used_up_by(self, item: bytes, following: Callable[[bytes], Iterable[bytes] | None]) -> bytes:
        """Return the shortest beginning that is used up with an item."""
        last = item
        while last:
            before = last[:-1]
            after = following(before)
            if after is None:
                return last
            for byte in after:
                if before + byte != last and not self.has(before + byte):
                    return last
            last = before
        return last

    def has(self, begun: bytes) -> bool:
        """Whether a beginning is one in `used_up`."""
        at = bisect_left(self.used_up, begun)
        return at < len(self.used_up) and self.used_up[at] == begun

    def again(self, following: Callable[[bytes], Iterable[bytes] | None], tokens_of: TokensOf) -> UsedItems:
        """Return the same items, where others may follow than before; see `with_item`."""
        found = UsedItems.none(varied=self.varied)
        for item in self.items:
            at = bisect_right(found.used_up, item)
            # It may be used up already, as items of another place may be.
            if not at or not item.startswith(found.used_up[at - 1]):
                found = found.with_item(item, following, tokens_of)
        return found._replace(items=self.items)
