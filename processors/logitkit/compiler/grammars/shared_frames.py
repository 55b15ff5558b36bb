"""Which frames all configurations of a set share: these are pushed, and the set goes on without them.

By hand: `{(p, [f, g]), (q, [f])}` shares `f`; `{(q, [f]), (q, [g, h])}` is `q` on one frame, the set of stacks `{[f], [g, h]}`.
"""

from __future__ import annotations

from typing import TypeAlias

from logitkit.compiler.grammars.simulation import Configuration

__all__ = ["Frame", "shared_frames"]

# A set of alternative stacks.
Frame: TypeAlias = frozenset[tuple[int, ...]]


def shared_frames(found: set[Configuration]) -> tuple[list[Frame], set[Configuration]]:
    """Return the frames that all configurations share, the outermost first, and the configurations without them."""
    stacks = [stack for _, stack, _ in found]
    shortest, *_ = sorted(stacks, key=len)
    shared = len(shortest)
    for stack in stacks:
        while stack[:shared] != shortest[:shared]:
            shared -= 1
    frames: list[Frame] = [frozenset([(frame,)]) for frame in shortest[:shared]]
    left = {(state, stack[shared:], conditions) for state, stack, conditions in found} if shared else found
    if shared == len(shortest) or len(left) < 2:
        return frames, left
    # Perhaps every configuration goes with every one of some alternative stacks.
    state, stack, conditions = min(left, key=lambda c: (len(c[1]), c[0]))
    for cut in range(len(stack), 0, -1):
        top = stack[cut:]
        below = {
            s[: len(s) - len(top)]
            for q, s, c in left
            if q == state and c == conditions and s[len(s) - len(top) :] == top
        }
        if () in below:
            continue
        tops = {(q, s[cut:], c) for q, s, c in left if s[:cut] == stack[:cut]}
        tops = {(q, s, c) for q, s, c in tops if all((q, b + s, c) in left for b in below)}
        if len(left) == len({(q, b + s, c) for q, s, c in tops for b in below}):
            return [*frames, frozenset(below)], tops
    return frames, left
