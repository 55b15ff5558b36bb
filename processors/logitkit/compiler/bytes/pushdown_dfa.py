"""A pushdown automaton over bytes that may look at a byte before it reads it.

The problem: in `1+(2*3)`, what follows the `3` decides where the rule for a product ends: before `)` and `+`, but not before
`*`. An automaton that must read each byte where it stands cannot say so; this one may first pop a frame and then look at the
same byte again.

By hand, for `sum ::= item ("+" item)*` and `item ::= "1" | "(" sum ")"`, where the call inside the brackets pushes frame F:

    state           reads 1     reads (                 +           )           end of the text
    start           item read   push F, to start        -           -           -
    item read       -           -                       start       pop         finished, or pop if F is on the stack
    after F         -           -                       -           item read   -

Popping F in `item read` leads to `after F`, where the `)` is looked at again.

Invariants: a frame is popped only in a state whose row says so, and then the state and the frame together say where to go on;
the number of frames only falls while a symbol is looked at again, so this ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["NEVER", "PushdownDfa"]

NEVER = 2**30


@dataclass(frozen=True, eq=False, slots=True)
class PushdownDfa:
    """A pushdown automaton with one symbol of lookahead, deterministic or not.

    The symbols are the classes of bytes, then the special tokens, and last the end of the text.

    Args:
        step: [S, K] int32, what each symbol does in each state (`PushdownStep`). It is illegal; or it is read and leads to a
            state; or it is read, pushes the frames of a move and leads to that move's state; or it is not read: the innermost
            frame is popped, and the symbol is looked at again in the state that `return_state` has for the state and the frame
            (illegal if it has none, or the stack is empty). The end of the text leads to `FINISHED`; nothing else does. States 0
            (dead) and 1 (finished) have rows of zeros; others are live.
        byte_class: [256] int64, the symbol of each byte.
        special_tokens: The token ids that symbols stand for, in the order of their symbols.
        start: The start state.
        pushed: For each move, the frames that it pushes, at least one, the outermost first.
        target: [M] int64, the state that each move leads to.
        frames: Number of frames; they are numbered from 0 on.
        return_state: [P, 3] int64, a state, a frame that may be popped in it, and the state that both lead to, sorted.
        need: [S] int64, the least number of further frames that must be open at once on the way from a state to the end of what
            its innermost frame called (or to the end of the text, if there is none).
        further: [N, 3] int64, a state, a symbol and a step that it does there besides, sorted. Without any, the automaton is
            deterministic; else a text may lead to several places at once, and is in the language if one of them is at its end.
        frame_need: [F] int64, the most further frames that are needed after each frame, with any symbol that may pop it. None:
            as many as the states after it need.
    """

    step: NDArray[np.int32]
    byte_class: NDArray[np.int64]
    special_tokens: tuple[int, ...]
    start: int
    pushed: tuple[tuple[int, ...], ...]
    target: NDArray[np.int64]
    frames: int
    return_state: NDArray[np.int64]
    need: NDArray[np.int64]
    further: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    frame_need: NDArray[np.int64] | None = None

    @property
    def states(self) -> int:
        """Number of states, dead and finished included."""
        return len(self.step)

    @property
    def end(self) -> int:
        """The symbol of the end of the text."""
        return int(self.step.shape[1]) - 1
