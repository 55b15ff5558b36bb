"""Finds the bytes that may follow a beginning of an item; `used_items` asks for them when the last item with it is used.

By hand, for strings of which `"a"`, `"ab"` and `"b"` are possible: `"a` may be followed by `"` or `b`, and `"b` by `"` only. So
when `"b"` is used, `"b` leads nowhere any more.

Invariants: a byte that an array or object inside of the item forbids does not follow. White space does not count, and neither do
more digits of a number whose value is settled.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import TypeAlias

from logitkit.runtime.remembering.byte_steps import ByteSteps
from logitkit.runtime.remembering.item_position import ItemPosition
from logitkit.runtime.remembering.json_text import AFTER_NUMBER, OUTSIDE, SPACE
from logitkit.runtime.remembering.open_values import ItemPlace
from logitkit.runtime.remembering.used_items import END

__all__ = ["After", "following_from", "may_be_followed_by"]

# Returns the position after one more byte; None if it is illegal, or would repeat an item in the end.
After: TypeAlias = Callable[[ItemPosition, int], ItemPosition | None]

# The bytes that end a number in an array, and the bracket after an object without members.
ENDS, CLOSES = frozenset(b",]"), frozenset(b"}")


def may_be_followed_by(at: ItemPosition, byte: int, after: After) -> bool:
    """Whether no array or object that is open forbids a byte that the automaton allows."""
    return not at.remembers or after(at, byte) is not None


def following_from(steps: ByteSteps, place: ItemPlace, after: After) -> Callable[[bytes], frozenset[bytes] | None]:
    """Return a function that finds what may follow a beginning of an item: bytes, and `END`; None if it begins no item.

    Args:
        steps: The steps of the automaton.
        place: Where the item begins.
        after: Returns the position after one more byte.
    """
    state, stack = place
    # The positions along the last beginning.
    read: list[ItemPosition] = []
    last = b""

    def following(begin: bytes) -> frozenset[bytes] | None:
        key = state, stack, begin
        found = steps.following.get(key)
        if found is None:
            at = position(begin)
            if at is None:
                # An item of another kind.
                return None
            # The last token of an item is tried many times.
            found = steps.following.keep(key, _following(at, begin, steps, after), 200 + len(stack) + len(begin))
        return found

    def position(begin: bytes) -> ItemPosition | None:
        nonlocal last
        read[:1] = [ItemPosition(state, stack)]
        if not last.startswith(begin):
            same = takewhile(lambda pair: pair[0] == pair[1], zip(last, begin, strict=False))
            del read[1 + sum(1 for _ in same) :]
            last = begin
        while len(read) <= len(begin):
            now = after(read[-1], begin[len(read) - 1])
            if now is None:
                return None
            read.append(now)
        return read[len(begin)]

    return following


def _following(at: ItemPosition, begin: bytes, steps: ByteSteps, after: After) -> frozenset[bytes]:
    """Return what may follow a beginning of an item, given the position after it."""
    legal = steps.legal(at.state, at.stack)
    if at.mode is OUTSIDE:
        legal = legal.translate(None, SPACE)
        if at.number is not None:
            # More of a settled number adds nothing.
            legal = bytes([byte for byte in legal if byte in AFTER_NUMBER or _changes_number(at, byte, after)])
        if not at.levels:
            # A number may be complete here, or an item has not begun.
            ends = bool(begin) and not ENDS.isdisjoint(legal)
            found = {bytes((byte,)) for byte in legal if byte not in ENDS | CLOSES}
            return frozenset({*found, END} if ends else found)
    return frozenset(bytes((byte,)) for byte in legal if may_be_followed_by(at, byte, after))


def _changes_number(at: ItemPosition, byte: int, after: After) -> bool:
    """Whether a byte may follow in a number, and its text is another one after it."""
    now = after(at, byte)
    if now is None or at.number is None:
        return False
    return now.pieces.since(at.number.begin) != at.pieces.since(at.number.begin)
