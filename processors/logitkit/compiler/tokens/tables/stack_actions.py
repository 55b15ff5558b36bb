"""The effects of tokens on the stack of a row, as arrays.

A stack action (`Targets`) either pops a frame, and then does what its token suffix does in the row of this frame; or it pushes
frames and leads to a state.

By hand, for nested lists such as `[[],[]]` with states up to 8, of which 7 and 8 are frames: the action of `[[` inside of a
list has `state` 4, `pushed` (8, 8), `rest` 0 and `height` 2. That of `],` has `rest` 8, the class of the suffix `,`, and pushes
nothing.

Invariants: an action with a `rest` has `state` 0 and pushes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.transition_columns import Ints

__all__ = ["FLAT", "StackActions"]


@dataclass(frozen=True, eq=False, slots=True)
class StackActions:
    """The actions of an automaton: [N] are their fields.

    Args:
        frames: The number of frames, which are the last states of the automaton. No row is ever in one.
        max_depth: The most frames on a stack.
        state: [N] int32, the state to which an action leads.
        pushed: [N, P] int32, the frames that it pushes, the outermost first, and then 0.
        rest: [N] int32, the class of the token suffix that continues after the frame that it pops; 0 if it pops none.
        height: [N] int32, the room that it needs: the most frames beyond those before it that are on the stack at once, or that
            must be opened later before a bracket can be closed.
        pops: The most frames that a token pops.
        cost: [S] int32, how many tokens are needed from each state to its closing bracket, or to the end of the text; for a
            frame, from the state after it. None: this is not known.
        strings: The number of frames of strings. One string may be open besides the brackets that `max_depth` allows.
        counting: [4, N] int32, the effects of actions on the count (`Counting`). None: they have no effect.
        blocks: The number of frames of calls that do not recur, such as those of blocks of items. They are the last of all
            frames.
        open_blocks: The most of these that may be open, besides the brackets that `max_depth` allows.
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
        """Return the actions of an automaton without frames whose rows may have a limit of tokens."""
        # Rows have room for one frame, which distinguishes them from rows that are only a state.
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
        """The most frames on a stack, not counting those of blocks."""
        return self.max_depth - self.open_blocks

    def counted(self, frames: tuple[int, ...], states: int) -> int:
        """Return how many frames are not those of blocks.

        Args:
            frames: The frames.
            states: The number of states of the automaton, its frames included.
        """
        first = self.first_block(states)
        return sum([frame < first for frame in frames]) if self.blocks else len(frames)

    def first_block(self, states: int) -> int:
        """Return the first frame of blocks; the number of states if there is none."""
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


# The actions of a finite automaton: none.
FLAT = StackActions(0, 0, _nothing(0), _nothing(0, 0), _nothing(0), _nothing(0), 0)
