"""How many frames a pushdown automaton must push at least before it can pop, or finish.

From a state, the frame that is innermost there is popped in one of some states; which of them can be reached while at most `m`
further frames are open at once, is computed for `m` = 0, 1, and so on, until every state can reach one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.compiler.bytes.pushdown_dfa import NEVER, POP, PushdownDfa
from logitkit.limits import Limits

__all__ = ["frame_needs"]


def frame_needs(dfa: PushdownDfa, limits: Limits) -> NDArray[np.int64]:
    """Return [S] how many further frames each state needs; 0 for the dead and the finished one, `NEVER` where there is no end."""
    states = dfa.states
    after = dfa.after_pop()
    does = [sorted(set(row.tolist()) - {DEAD, FINISHED, POP}) for row in dfa.step]
    # The states in which the innermost frame is popped, as a mask; bit 0 for the end of the text.
    pops, finishes = (dfa.step == POP).any(axis=1).tolist(), (dfa.step == FINISHED).any(axis=1).tolist()
    own = [(pops[state] << state) | finishes[state] for state in range(states)]
    need = np.full(states, NEVER, np.int64)
    need[[DEAD, FINISHED]] = 0
    # For each number of further frames, what each state can reach.
    history: list[list[int]] = []
    while True:
        reached = own[:]
        sources: list[list[int]] = [[] for _ in range(states)]
        for state, row in enumerate(does):
            for target in row:
                if target < states:
                    sources[target].append(state)
                else:
                    for end in _after_call(dfa, after, history, target - states):
                        sources[end].append(state)
        limits.spend(states + 3 * sum(map(len, sources)))
        todo = [state for state in range(states) if reached[state]]
        while todo:
            state = todo.pop()
            for source in sources[state]:
                if reached[state] & ~reached[source]:
                    reached[source] |= reached[state]
                    todo.append(source)
        for state in range(states):
            if reached[state] and need[state] == NEVER:
                need[state] = len(history)
        history.append(reached)
        widest = max(map(len, dfa.pushed), default=0)
        if (need != NEVER).all() or (len(history) > widest + 1 and all(h == reached for h in history[-widest - 1 :])):
            return need


def _after_call(
    dfa: PushdownDfa, after: dict[tuple[int, int], int], history: list[list[int]], move: int
) -> dict[int, None]:
    """Return the states in which the frames of a move may all be popped again, with as many further frames as are allowed now."""
    frames, allowed = dfa.pushed[move], len(history)
    here = {int(dfa.target[move]): None}
    for still in range(len(frames), 0, -1):
        if allowed < still:
            return {}
        ends = 0
        for state in here:
            ends |= history[allowed - still][state]
        found = [after.get((end, frames[still - 1])) for end in _bits(ends & ~1)]
        here = dict.fromkeys(state for state in found if state is not None)
    return here


def _bits(mask: int) -> Iterator[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1
