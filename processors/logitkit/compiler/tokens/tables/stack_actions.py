"""The effects of tokens on the stack of a row, as tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.transition_columns import Ints

__all__ = ["FLAT", "StackActions"]


@dataclass(frozen=True, eq=False, slots=True)
class StackActions:
    """The effects of tokens on the stack, besides leading to a state.

    An action (`Targets`) pops a frame, and then does what its suffix does in the frame's row; or it pushes frames and leads to a
    state.

    Args:
        frames: Number of frames, which are the last of the automaton's states. No row is ever in one.
        max_depth: Most frames on a stack.
        state: [N] int32, the state in the end.
        pushed: [N, P] int32, the frames that are pushed, the outermost first, then 0.
        rest: [N] int32, the class of the token suffix that goes on after a popped frame; 0 where none is popped.
        height: [N] int32, the most frames that are on the stack meanwhile, or must be later before a bracket is closed, more than
            there were before.
        pops: The most frames that a token pops.
        cost: [S] int32, tokens that are needed, at least, from each state to its closing bracket, or to the end; for a frame,
            from the state after it. None: nothing is counted.
        strings: Number of frames that stand for strings. A string may be open besides as many brackets as are allowed.
        counting: [4, N] int32, what actions do to the count of a state (`Counting`). None: nothing.
        blocks: Number of frames of calls that do not recur, such as those of blocks of items. They are the last of all.
        open_blocks: How many of these may be open, at most, besides as many brackets as are allowed.
    """

    frames: int
    max_depth: int
    state: NDArray[np.int32]
    pushed: NDArray[np.int32]
    rest: NDArray[np.int32]
    height: NDArray[np.int32]
    pops: int
    cost: NDArray[np.int32] | None = None
    strings: int = 0
    counting: NDArray[np.int32] | None = None
    blocks: int = 0
    open_blocks: int = 0

    @classmethod
    def counting_tokens(cls, cost: NDArray[np.int32]) -> StackActions:
        """Return that of an automaton without frames, whose rows may count the tokens that are left to them."""
        # Rows have room for a frame, which tells them from rows that have nothing but a state.
        return replace(FLAT, max_depth=1, cost=cost)

    @property
    def is_flat(self) -> bool:
        """Whether no bracket needs a frame, so that a finite automaton has the same texts."""
        return self.frames == self.strings + self.blocks

    @property
    def brackets(self) -> int:
        """The most brackets with frames that may be open."""
        return self.counted_depth - (self.strings + self.blocks > 0)

    @property
    def counted_depth(self) -> int:
        """The most frames on a stack, those of blocks not counted."""
        return self.max_depth - self.open_blocks

    def counted(self, frames: tuple[int, ...], states: int) -> int:
        """Return how many of some frames count as nesting; those of blocks do not.

        Args:
            frames: The frames.
            states: The number of states of the automaton, its frames included.
        """
        first = self.first_block(states)
        return sum([frame < first for frame in frames]) if self.blocks else len(frames)

    def first_block(self, states: int) -> int:
        """Return the frame with which those of blocks begin; the number of states if there are none."""
        return states - self.blocks

    @property
    def tables(self) -> tuple[Ints, ...]:
        """All arrays."""
        if not self.max_depth:
            return ()
        optional = tuple([table for table in (self.cost, self.counting) if table is not None])
        return (self.state, self.pushed, self.rest, self.height, *optional)


def _nothing(*shape: int) -> NDArray[np.int32]:
    return np.zeros(shape, np.int32)


# That of an automaton whose states say everything.
FLAT = StackActions(0, 0, _nothing(0), _nothing(0, 0), _nothing(0), _nothing(0), 0)
