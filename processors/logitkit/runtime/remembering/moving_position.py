"""A position that moves: its text and the matches, as more is written.

By hand, after `["ab","a` with `"ab"` used up: writing `b` keeps the match, and `"` would use up an item. Text that has been
written may be replaced from a place on, as a number by its one spelling. Then the matches go on from those at that place.

Invariants: the text consists of `_pieces`, and then `_begun`. Nothing is used after an item was used up.
"""

from __future__ import annotations

from logitkit.compiler.tokens.tables.packed_stacks import Packed
from logitkit.runtime.remembering.byte_steps import ByteSteps
from logitkit.runtime.remembering.item_position import ItemPosition, matched
from logitkit.runtime.remembering.open_values import UsedMatches

__all__ = ["MovingPosition"]


class MovingPosition:
    """A position that moves, in bytes that the automaton allows.

    Args:
        at: The position that it begins at.
        steps: The steps of the automaton.
    """

    __slots__ = (
        "_begun",
        "_choice",
        "_end",
        "_known",
        "_last",
        "_length",
        "_levels",
        "_matches",
        "_mode",
        "_number",
        "_pieces",
        "_states",
        "_steps",
        "_text",
    )

    def __init__(self, at: ItemPosition, steps: ByteSteps) -> None:
        self._steps = steps
        state, stack, self._mode, self._pieces, levels, self._known, self._matches, self._number, self._choice = at
        self._levels = [*levels]
        # Text that is not in a piece yet, and the length and the last byte of all text.
        self._begun = bytearray()
        self._length = self._pieces.length
        self._last = self._pieces.last[-1:]
        # The states before each byte of what is read, as far as they were needed, and that after the last one if it is known.
        self._states = [(state, stack)]
        self._end: tuple[int, Packed] | None = None
        self._text = b""

    def position(self, state: int, stack: Packed) -> ItemPosition:
        """Return the position, given the state of the automaton."""
        self._flush()
        return ItemPosition(
            state,
            stack,
            self._mode,
            self._pieces,
            (*self._levels,),
            self._known,
            self._matches,
            self._number,
            self._choice,
        )

    def _state_at(self, at: int) -> tuple[int, Packed]:
        """Return the state before a byte of the text, or after the last one."""
        if self._end is not None and at == len(self._text):
            return self._end
        states = self._states
        while len(states) <= at:
            states.append(self._steps.after(*states[-1], self._text[len(states) - 1]))
        return states[at]

    def _flush(self) -> None:
        if self._begun:
            self._pieces = self._pieces.plus(bytes(self._begun))
            self._begun = bytearray()

    def _since(self, begin: int) -> bytes:
        """Return the text from a place on, which is one piece from then on."""
        self._flush()
        found = self._pieces.since(begin)
        if len(found) > len(self._pieces.last):
            self._pieces = self._pieces.split(begin)[0].plus(found)
        return found

    def _write(self, text: bytes) -> bool:
        """Add text, and return whether no item is used up."""
        if self._matches:
            found = matched(self._levels, self._matches, self._length, text)
            if found is None:
                return False
            self._matches = found
        self._begun += text
        self._length += len(text)
        self._last = text[-1:]
        return True

    def _rewrite(self, begin: int, before: UsedMatches, text: bytes) -> bool:
        """Replace the text from a place on, given the matches before it, and return whether no item is used up."""
        self._flush()
        self._pieces, _ = self._pieces.split(begin)
        self._length, self._matches, self._choice = begin, before, -1
        return self._write(text)
