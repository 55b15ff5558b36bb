"""A row that remembers the items of arrays, and bans tokens after which an item would come again.

The problem: a mask that depends on all items cannot be kept for a state. So the mask of the state is kept, and a few tokens are
banned in addition.

By hand, in `["ab","a` with one array open whose items must differ: used up is `"ab"`, of which `b"` is left. So all tokens that
begin with `b"` are banned: `b"`, `b",` and `b"]`. In the same place, the token `","ab` may begin an item that is used up later in
the token. There are few such tokens, and those that are not ruled out by their length are read byte by byte.

Invariants: `position` is None where no array that remembers its items is open. Else it is in the state of the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.compiler.tokens.tables.packed_stacks import FRAME_BYTES, Packed, frames_of
from logitkit.runtime.constraint_row import NO_IDS, StackRow
from logitkit.runtime.remembering.byte_steps import ByteSteps, steps_of
from logitkit.runtime.remembering.item_position import ItemPosition
from logitkit.runtime.remembering.json_text import AFTER_NUMBER, IN_NUMBER
from logitkit.runtime.remembering.narrowed_mask import NarrowedMask
from logitkit.runtime.remembering.open_values import OpenArray
from logitkit.runtime.remembering.respelling import may_be_respelled
from logitkit.runtime.remembering.used_items import END, NEVER, UsedItems
from logitkit.runtime.row_mask import RowMask

__all__ = ["Memory", "RememberingRow"]

BRACKET = b"["


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

    __slots__ = ("memory", "position")

    def __init__(
        self, registry: Any, slot: int, generation: int, current: int, stack: Packed, memory: Memory = NOTHING
    ) -> None:
        super().__init__(registry, slot, generation, current, stack, NO_LIMIT)
        self.memory = memory
        self.position = self._read(memory) if memory.text else None
        if memory.text and self.position is None:
            # Its automaton does not allow the text, so which items are used up is unknown.
            self.current, self.stack = DEAD, bytes(len(stack))

    def _read(self, memory: Memory) -> ItemPosition | None:
        """Return the position after a text that was saved."""
        steps = steps_of(self.automaton)
        stack = _lowest(self.stack, memory.depth)
        key = memory.state, stack, memory.text
        found = steps.positions.get(key)
        if found is None:
            at: ItemPosition | None = ItemPosition.in_array(steps, memory.state, stack)
            for byte in memory.text[1:]:
                at = at and at.after(byte, steps)
            if at is None:
                return None
            found = self._kept(steps, key, at)
        return found

    def advance(self, token: int) -> None:
        """Advance by one token; see `ConstraintRow.advance`."""
        if self.current < FIRST_STATE or token == -1:
            return
        automaton = self.automaton
        steps = steps_of(automaton)
        text = steps.tokens.texts[token] or b""
        is_free = True
        if self.position is not None or BRACKET in text:
            is_free = self._advance_by_bytes(text, steps)
        super().advance(token)
        self._mask = None
        if not is_free and self.current >= FIRST_STATE:
            self.current, self.stack = DEAD, bytes(len(self.stack))
        if self.current < FIRST_STATE:
            self.position, self.memory = None, NOTHING

    def _advance_by_bytes(self, text: bytes, steps: ByteSteps) -> bool:
        """Read the text of a token, and return whether it is legal as far as items are concerned."""
        reader = _TokenReader(steps, self.current, self.stack, self.position, self.memory)
        if not reader.read(text):
            return False
        self.position, self.memory = reader.position, reader.memory
        if self.position is not None:
            key = self.memory.state, _lowest(self.position.stack, self.memory.depth), self.memory.text
            self._kept(steps, key, self.position)
        return True

    @staticmethod
    def _kept(steps: ByteSteps, key: tuple[int, Packed, bytes], at: ItemPosition) -> ItemPosition:
        # Its items are parts of its text; a short one takes many times its length.
        kept: ItemPosition = steps.positions.keep(key, at, 500 + 40 * len(key[2]))
        return kept

    def allows(self, token: int) -> bool:
        """Whether a token is legal."""
        if not super().allows(token):
            return False
        steps = steps_of(self.automaton)
        text = steps.tokens.texts[token] or b""
        if self.position is None and BRACKET not in text:
            return True
        return _TokenReader(steps, self.current, self.stack, self.position, self.memory).read(text)

    def _made_mask(self) -> RowMask:
        found, banned = super()._made_mask(), self.banned()
        return NarrowedMask.narrowing(found, banned) if len(banned) else found

    def banned(self) -> NDArray[np.int64]:
        """Return the ids of tokens that the automaton allows, and after which an item would come again, and maybe of others."""
        if self.current < FIRST_STATE:
            return NO_IDS
        steps = steps_of(self.automaton)
        found = [] if self.position is None else [*_ranges(self.position, steps)]
        walked = [
            token
            for token in self._doubtful(steps)
            if not _TokenReader(steps, self.current, self.stack, self.position, self.memory).read(
                steps.tokens.texts[token] or b""
            )
        ]
        if walked:
            found.append(np.array(walked, np.int64))
        return np.concatenate(found) if found else NO_IDS

    def _doubtful(self, steps: ByteSteps) -> Iterator[int]:
        """Yield the ids of tokens that must be read byte by byte."""
        at = self.position
        if at is None:
            # Only an array that begins in the token can remember its items.
            yield from steps.openers(self.current, self.stack)
            return
        shaped = steps.shaped(self.current, self.stack, at.mode, at.begins_value)
        yield from shaped.whole
        if shaped.crossing:
            harmless = _harmless(at, steps)
            yield from (token for token, begins in shaped.crossing if begins > harmless)
        if (at.begins_value or at.number) and any(items.used_up for _, items in _begun(at)):
            yield from steps.numeric(self.current, self.stack)
        if shaped.ends and may_be_respelled(at, steps):
            yield from shaped.ends


class _TokenReader:
    """Reads the bytes of a token.

    Args:
        steps: The steps of the automaton.
        state: The state before the token.
        stack: The stack before it.
        position: The position before it.
        memory: The text that is remembered before it.
    """

    def __init__(
        self, steps: ByteSteps, state: int, stack: Packed, position: ItemPosition | None, memory: Memory
    ) -> None:
        self.steps, self.state, self.stack = steps, state, stack
        self.position, self.memory = position, memory

    def read(self, text: bytes) -> bool:
        """Read a text, and return whether it is legal."""
        steps, at, begin = self.steps, self.position, 0
        for place, byte in enumerate(text):
            if at is None:
                self.state, self.stack = steps.after(self.state, self.stack, byte)
                if self.state < FIRST_STATE:
                    return False
                if byte == BRACKET[0] and steps.remembers(self.state):
                    at, begin = ItemPosition.in_array(steps, self.state, self.stack), place
                    self.memory = Memory(self.state, len(frames_of(self.stack)), b"")
                continue
            at = at.after(byte, steps)
            if at is None:
                return False
            if not at.levels:
                self.state, self.stack, at, self.memory = at.state, at.stack, None, NOTHING
        self.position = at
        if at is not None:
            self.memory = self.memory._replace(text=self.memory.text + text[begin:])
        return True


def _lowest(stack: Packed, depth: int) -> Packed:
    """Return a stack with its lowest frames only."""
    width = len(stack)
    return stack[: FRAME_BYTES * depth].ljust(width, b"\0")


def _begun(at: ItemPosition) -> Iterator[tuple[bytes, UsedItems]]:
    """Yield the beginning of the current item of each open array that remembers its items, and the items."""
    last = len(at.levels) - 1
    for number, level in enumerate(at.levels):
        if isinstance(level, OpenArray) and level.items is not None and not level.ended:
            if level.begin >= 0:
                yield at.text[level.begin :], level.items
            elif number == last:
                yield b"", level.items


def _ranges(at: ItemPosition, steps: ByteSteps) -> Iterator[NDArray[np.int64]]:
    """Yield the ids of tokens that begin with what is left of something that is used up."""
    beginning_with, longest = steps.tokens.beginning_with, steps.tokens.longest
    for begin, items in _begun(at):
        for used in items.used_up:
            if not used.startswith(begin) or len(used) > len(begin) + longest:
                continue
            rest = used[len(begin) :]
            if at.is_settled and rest[:1] in IN_NUMBER:
                # More digits of a settled number are not those of another number.
                continue
            if rest.endswith(END):
                # Tokens with white space are read byte by byte.
                yield beginning_with(rest[:-1] + b",")
                yield beginning_with(rest[:-1] + b"]")
            else:
                yield beginning_with(rest)


def _harmless(at: ItemPosition, steps: ByteSteps) -> int:
    """Return how many bytes a token may begin an item with that cannot be used up by then, after it has ended one at most."""
    found, has_choice = NEVER, _has_choice(at, steps)
    for level in at.levels:
        if not isinstance(level, OpenArray) or level.items is None:
            continue
        found = min(found, level.items.shortest - 1)
        if level.items.varied or (level.ended and level.items.is_exhausted):
            return -1
        if not level.ended:
            # The current item may make a beginning be used up that is longer than itself.
            found = min(found, len(at.text) - level.begin if has_choice and level.begin >= 0 else -1)
    return found


def _has_choice(at: ItemPosition, steps: ByteSteps) -> bool:
    """Whether at least two bytes may follow that lead to items which are not used: so one item more does not use up all."""
    if at.is_settled:
        return False
    legal = steps.legal(at.state, at.stack)
    others = legal.translate(None, AFTER_NUMBER + b"}")
    ends = len(others) < len(legal)
    used: set[int] = set()
    for begin, items in _begun(at):
        if len(begin) + 1 >= items.shortest:
            used.update([one[-1] for one in items.used_up if len(one) == len(begin) + 1 and one.startswith(begin)])
            ends &= begin + END not in items.used_up
    return len(others) - len(used.intersection(others)) + ends > 1
