"""One text that a row remembers: which arrays and objects are open, and which used items begin with those that are open.

By hand, in an array whose items must differ, after `["ab","cd","a`:

    levels     an array, whose current item begins at byte 11, and in which `"ab"` and `"cd"` are used up
    matches    of these, `"ab"` begins with `"a`
    text       `,"a`: what stands before is not needed any more

Invariants: `pieces` begins with the bracket of the outermost array that remembers its items, or with the comma before its current
item. It has no white space outside of strings, and its complete values are spelled as in `spelling`. A position never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from logitkit.compiler.tokens.tables.packed_stacks import Packed
from logitkit.runtime.remembering.byte_steps import ByteSteps
from logitkit.runtime.remembering.json_text import OUTSIDE, JsonMode
from logitkit.runtime.remembering.known_objects import KnownObjects
from logitkit.runtime.remembering.open_values import (
    ItemPlace,
    Level,
    OpenArray,
    OpenNumber,
    OpenObject,
    UsedMatch,
    UsedMatches,
)
from logitkit.runtime.remembering.text_pieces import EMPTY, Pieces
from logitkit.runtime.remembering.used_items import UsedItems

__all__ = ["ItemPosition", "matched"]

NO_OBJECTS = KnownObjects()
BEFORE_VALUE = b"[{,:"


class ItemPosition(NamedTuple):
    """The position after some bytes.

    Args:
        state: The state of the automaton, with its count.
        stack: The frames of its open brackets.
        mode: Whether the position is in a string.
        pieces: The text.
        levels: The arrays and objects that are open, outermost first.
        known: The objects that have been written.
        matches: The used items that begin with a current item.
        number: The number at the end of the text, or None if there is none.
        choice: A place in the text after which at least two bytes led to items that were not used; -1: none is known. So an item
            that is longer leaves another one with the same beginning.
    """

    state: int
    stack: Packed
    mode: JsonMode = OUTSIDE
    pieces: Pieces = EMPTY
    levels: tuple[Level, ...] = ()
    known: KnownObjects = NO_OBJECTS
    matches: UsedMatches = ()
    number: OpenNumber | None = None
    choice: int = -1

    @classmethod
    def after_bracket(cls, steps: ByteSteps, state: int, stack: Packed) -> ItemPosition:
        """Return the position after the bracket of an array or object that remembers, in the state after it."""
        items, place = UsedItems.none(varied=steps.is_varied(state)), ItemPlace(state, stack)
        has_names = steps.remembers_names(state)
        level: Level = OpenObject(items, place, 0, ()) if has_names else OpenArray(items, place)
        return cls(state, stack, pieces=EMPTY.plus(b"{" if has_names else b"["), levels=(level,))

    @property
    def text(self) -> bytes:
        """The text from the current item of the outermost array on, and the byte before it."""
        return self.pieces.text

    def after_more(self, text: bytes, state: int, stack: Packed) -> ItemPosition | None:
        """Return the position after more of a string, or after digits that do not settle their number; None if it is illegal.

        Args:
            text: The text to add.
            state: The state of the automaton after it.
            stack: The stack then.
        """
        mode, pieces, levels, known, matches, number, choice = self[2:]
        if matches:
            found = matched(levels, matches, pieces.length, text)
            if found is None:
                return None
            matches = found
        return ItemPosition(state, stack, mode, pieces.plus(text), levels, known, matches, number, choice)

    @property
    def begins_value(self) -> bool:
        """Whether a value or a name may begin here."""
        return self.mode is OUTSIDE and self.pieces.last[-1:] in BEFORE_VALUE

    @property
    def remembers(self) -> bool:
        """Whether an array or object is open that remembers."""
        return any(level.items is not None for level in self.levels)


def matched(levels: Sequence[Level], matches: UsedMatches, length: int, text: bytes) -> UsedMatches | None:
    """Return the matches after more text, or None if it uses up an item.

    Args:
        levels: The open arrays and objects.
        matches: The matches before it.
        length: The length of the text before it.
        text: The text to add.
    """
    found = []
    for level, first, last in matches:
        array, low, high = levels[level], first, last
        assert array.items is not None
        used, depth = array.items.used_up, length - array.begin
        for byte in text:
            if not used[low][depth] == byte == used[high - 1][depth]:
                low, high = array.items.narrowed(low, high, depth, byte)
                if low == high:
                    break
            depth += 1
            if len(used[low]) == depth:
                return None
        else:
            found.append(UsedMatch(level, low, high))
    return (*found,)
