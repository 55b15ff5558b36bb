"""The items of an array that have been written, and the beginnings of items that only lead to these.

A row must never get stuck: if the items may be `"ab"`, `"ac"` and `"b"`, and the first two are used, then `"a` leads nowhere.
So a beginning is *used up* if each byte that may follow leads to a beginning that is used up, or completes an item that is used.

By hand, for these three items: after `"ab"`, its beginning `"ab` is used up as well, since only the quote may follow. `"a` is
not: `c` may follow. After `"ac"` it is. `"` is not, because of `"b"`. After that, it is, and so is the empty beginning: no item
is left, and the array may only end.

A number ends with what follows it, so it is kept with `END` after it: 1 may be used while 12 is not.

Invariants: no beginning in `used_up` begins another one in it. All that lead nowhere else begin with one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from logitkit.runtime.remembering.json_text import AFTER_NUMBER

__all__ = ["END", "NEVER", "UsedItems"]

# Stands after the text of a number. No JSON text has this byte.
END = b"\0"

NEVER = 2**62


class UsedItems(NamedTuple):
    """The items of one array.

    Args:
        used_up: The shortest beginnings that lead to no item but used ones. A used item is one itself, unless a shorter one is.
        shortest: The length of the shortest of these.
        items: All used items, in the order in which they were written, where items of different places differ in kind.
        varied: Whether they do, as with `prefixItems`.
    """

    used_up: frozenset[bytes] = frozenset()
    shortest: int = NEVER
    items: tuple[bytes, ...] = ()
    varied: bool = False

    @property
    def is_exhausted(self) -> bool:
        """Whether no item is left."""
        return not self.shortest

    def leaves_others(self, item: bytes, following: int) -> bool:
        """Whether an item surely uses up no beginning but itself.

        Args:
            item: The item.
            following: How many bytes may follow where its last byte is written. Those that end a number lead to no other item
                than each other, and white space to none.
        """
        alike = [used for used in self.used_up if len(used) == len(item) and used.startswith(item[:-1])]
        return following > len(alike) + 1 + len(AFTER_NUMBER)

    def with_item(self, item: bytes, following: Callable[[bytes], Iterable[bytes] | None] | None) -> UsedItems:
        """Return the items with one more.

        Args:
            item: The item; a number with `END` after it.
            following: Returns what may follow a beginning of an item: bytes, and `END`; None where nothing is known. None:
                the item uses up no beginning but itself.
        """
        return self.with_items((item,), following)

    def with_items(
        self, items: Iterable[bytes], following: Callable[[bytes], Iterable[bytes] | None] | None
    ) -> UsedItems:
        """Return the items with some more; see `with_item`."""
        used_up, shortest, added = {*self.used_up}, self.shortest, tuple(items)
        for item in added:
            used_up.add(item)
            last = item
            while last and following is not None:
                before = last[:-1]
                after = following(before)
                if after is None or not all(before + byte in used_up for byte in after):
                    break
                used_up.difference_update([before + byte for byte in after])
                used_up.add(before)
                last = before
            shortest = min(shortest, len(last))
        kept = (*self.items, *added) if self.varied else ()
        return UsedItems(frozenset(used_up), shortest, kept, self.varied)
