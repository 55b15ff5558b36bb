"""A row that remembers the items of arrays, and bans tokens after which an item would come again.

By hand, for strings that must differ: until the bracket of the array, the row has no position. After `["ab","a`, its position
says that `"ab"` is used up, and all tokens that begin with `b"` are banned (`banned_tokens`).

Invariants: `position` is None where no array that remembers its items is open. Else it is in the state of the row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.compiler.tokens.tables.packed_stacks import FRAME_BYTES, Packed, frames_of
from logitkit.runtime.constraint_row import NO_IDS, StackRow
from logitkit.runtime.remembering.banned_tokens import banned_tokens
from logitkit.runtime.remembering.byte_steps import ByteSteps, steps_of
from logitkit.runtime.remembering.item_position import ItemPosition
from logitkit.runtime.remembering.json_text import STRING
from logitkit.runtime.remembering.narrowed_mask import NarrowedMask
from logitkit.runtime.remembering.position_reader import PositionReader
from logitkit.runtime.remembering.settled_numbers import is_settled
from logitkit.runtime.remembering.text_pieces import EMPTY, Pieces
from logitkit.runtime.row_mask import RowMask

__all__ = ["Memory", "RememberingRow"]

LEAVES_STRING = b'"\\'
# A saved text is read in parts of this many bytes.
PART = 64


class Memory(NamedTuple):
    """All that a row remembers, as it is saved.

    Args:
        state: The state after the bracket of the outermost array that remembers its items.
        depth: The number of frames then.
        text: The text from this bracket on, as it was written.
    """

    state: int
    depth: int
    text: bytes


NOTHING = Memory(DEAD, 0, b"")


class RememberingRow(StackRow):
    """A row under an automaton in which some arrays remember their items.

    Args:
        registry: The registry that the slot refers to.
        slot: The slot of its automaton.
        generation: That of the slot.
        current: The state, with its count.
        stack: The frames of the open brackets.
        memory: The text that it remembers.
    """

    __slots__ = ("_began", "_narrowed", "_written", "position")

    def __init__(
        self, registry: Any, slot: int, generation: int, current: int, stack: Packed, memory: Memory = NOTHING
    ) -> None:
        super().__init__(registry, slot, generation, current, stack, NO_LIMIT)
        self._narrowed: RowMask | None = None
        # The state and the depth at the first bracket, and the text from there on.
        self._began, self._written = memory[:2], Pieces(None, memory.text, len(memory.text))
        self.position = self._read(memory) if memory.text else None
        if memory.text and self.position is None:
            # Its automaton does not allow the text, so which items are used up is unknown.
            self._die()

    @property
    def memory(self) -> Memory:
        """The text that it remembers."""
        if self.position is None:
            return NOTHING
        if self._written.before is not None:
            self._written = Pieces(None, self._written.text, self._written.length)
            self._keep(steps_of(self.automaton), self.position)
        return Memory(*self._began, self._written.last)

    def _read(self, memory: Memory) -> ItemPosition | None:
        """Return the position after a text that was saved, or None if the automaton does not allow it."""
        steps = steps_of(self.automaton)
        stack = _lowest(self.stack, memory.depth)
        at: ItemPosition | None = steps.positions.get((memory.state, stack, memory.text))
        if at is not None:
            return at
        at = ItemPosition.after_bracket(steps, memory.state, stack)
        for begin in range(1, len(memory.text), PART):
            part = memory.text[begin : begin + PART]
            state, stack = at.state, at.stack
            for byte in part:
                state, stack = steps.after(state, stack, byte)
                if state < FIRST_STATE:
                    return None
            reader = PositionReader(at, steps)
            if not reader.read(part, (state, stack)) or reader.read_bytes < len(part):
                return None
            at = reader.position(state, stack)
            if not at.levels:
                return None
        self._keep(steps, at)
        return at

    def _keep(self, steps: ByteSteps, at: ItemPosition) -> None:
        """Keep a position for rows that are read from tensors."""
        key = self._began[0], _lowest(at.stack, self._began[1]), self._written.last
        # Its items are parts of its text.
        steps.positions.keep(key, at, 1000 + 2 * len(key[2]))

    def _die(self) -> None:
        self.current, self.stack = DEAD, bytes(len(self.stack))
        self._mask, self.position = None, None

    def advance(self, token: int) -> None:
        """Advance by one token; see `ConstraintRow.advance`."""
        state, stack, at = self.current, self.stack, self.position
        if state < FIRST_STATE or token == -1:
            return
        automaton = self.automaton
        self.current, self.stack = automaton.step(state, stack, token)
        if self.current != state or self.stack != stack:
            self._mask = None
        self._narrowed = None
        steps = steps_of(automaton)
        text = steps.tokens.texts[token] or b""
        if self.current < FIRST_STATE:
            self.position = None
        elif at is None:
            if len(text.translate(None, steps.brackets)) < len(text):
                self._advance_outside(text, steps, state, stack)
        elif (
            len(text.translate(None, LEAVES_STRING)) == len(text)
            if at.mode is STRING
            else (number := at.number) is not None
            and not number.is_zero
            and text.isdigit()
            and not number.is_settled
            and not is_settled(number, self.current, self.stack, steps)
        ):
            self.position = at.after_more(text, self.current, self.stack)
            self._written = self._written.plus(text)
            if self.position is None:
                self._die()
        else:
            self._advance_inside(text, steps, at)

    def _advance_inside(self, text: bytes, steps: ByteSteps, at: ItemPosition) -> None:
        """Go on inside of an array that remembers its items."""
        reader, end = PositionReader(at, steps), (self.current, self.stack)
        if not reader.read(text, end):
            self._die()
        elif reader.read_bytes < len(text):
            # The array has ended, and another one may begin.
            state, stack = steps.after_all(at.state, at.stack, text[: reader.read_bytes])
            self.position = None
            self._advance_outside(text[reader.read_bytes :], steps, state, stack)
        else:
            self.position = reader.position(*end)
            self._written = self._written.plus(text)
            if not self.position.levels:
                self.position = None

    def _advance_outside(self, text: bytes, steps: ByteSteps, state: int, stack: Packed) -> None:
        """Go on outside of arrays that remember their items, from a state."""
        found = _first_bracket(text, steps, state, stack)
        if found is not None:
            at, begin = found
            self.position = at
            self._began, self._written = (at.state, len(frames_of(at.stack))), EMPTY.plus(text[begin - 1 : begin])
            if begin < len(text):
                self._advance_inside(text[begin:], steps, at)

    def allows(self, token: int) -> bool:
        """Whether a token is legal."""
        if not super().allows(token):
            return False
        steps = steps_of(self.automaton)
        return _may_follow(self.position, steps, self.current, self.stack, steps.tokens.texts[token] or b"")

    def mask(self, columns: int) -> RowMask | None:
        """Return the mask of the row; see `ConstraintRow.mask`."""
        found = super().mask(columns)
        assert found is not None
        known = self._narrowed
        if known is not None and (known is found or (isinstance(known, NarrowedMask) and known.of_state is found)):
            return known
        banned = self.banned()
        self._narrowed = NarrowedMask.narrowing(found, banned) if len(banned) else found
        return self._narrowed

    def forget_mask(self) -> None:
        """Release the mask of the row, which takes memory."""
        super().forget_mask()
        self._narrowed = None

    def banned(self) -> NDArray[np.int64]:
        """Return the ids of tokens that the automaton allows, and after which an item would come again, and maybe of others."""
        if self.current < FIRST_STATE:
            return NO_IDS
        steps = steps_of(self.automaton)
        if self.position is not None:
            found, self.position = banned_tokens(self.position, steps)
            return found
        # Only an array or object that begins in the token can remember what is in it.
        state, stack, texts = self.current, self.stack, steps.tokens.texts
        openers = steps.openers(state, stack)
        walked = [token for token in openers if not _may_follow(None, steps, state, stack, texts[token] or b"")]
        return np.array(walked, np.int64) if walked else NO_IDS


def _may_follow(at: ItemPosition | None, steps: ByteSteps, state: int, stack: Packed, text: bytes) -> bool:
    """Whether no item comes again in a text that the automaton allows, from a position or from a state without one."""
    while text:
        if at is None:
            found = _first_bracket(text, steps, state, stack)
            if found is None:
                return True
            at, begin = found
            state, stack, text = at.state, at.stack, text[begin:]
        reader = PositionReader(at, steps)
        if not reader.read(text):
            return False
        state, stack = steps.after_all(state, stack, text[: reader.read_bytes])
        text, at = text[reader.read_bytes :], None
    return True


def _first_bracket(text: bytes, steps: ByteSteps, state: int, stack: Packed) -> tuple[ItemPosition, int] | None:
    """Return the position after the first bracket of an array or object that remembers, and its place in a text."""
    if len(text.translate(None, steps.brackets)) < len(text):
        for place, byte in enumerate(text):
            state, stack = steps.after(state, stack, byte)
            if byte in steps.brackets and steps.remembers(state):
                return ItemPosition.after_bracket(steps, state, stack), place + 1
    return None


def _lowest(stack: Packed, depth: int) -> Packed:
    """Return a stack with its lowest frames only."""
    width = len(stack)
    return stack[: FRAME_BYTES * depth].ljust(width, b"\0")
