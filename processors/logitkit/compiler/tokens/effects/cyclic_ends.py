"""The ends of rules as a graph: an end pops a frame, and may lead to another end before a byte is read.

In `root ::= "x" root root? | "z"`, the end of an inner `root` may also be the end of the `root` around it, and so on, for any
number of them. So this end leads back to itself. A byte after it may then be read after one frame is popped, or two, or more.

A *way* to pop has one action for each frame. If a frame has several actions, several ways are needed.

By hand: the pairs of frames and actions (0, 7), (1, 8), (1, 9) take two ways: ((0, 7), (1, 8)) and ((1, 9),).

Invariants: the number of ways does not depend on the stack. If it would grow with the stack, the grammar is refused.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.sorting import Index
from logitkit.compiler.bytes.transition_columns import Ints
from logitkit.compiler.tokens.tables.targets import Targets
from logitkit.errors import PatternTooLarge

__all__ = ["CYCLIC", "levels_of", "ways_around", "ways_of"]

# A way to pop: frames, each with the number of the action after it.
Way = tuple[tuple[int, int], ...]

# The level of an end that leads back to itself, or to one that does.
CYCLIC = 2**30

# The most ways in which a token may pop frames in one state.
MOST_WAYS = 32


def ways_of(pairs: list[tuple[int, int]]) -> list[Way]:
    """Spread pairs of frames and actions over as few ways as possible, each with at most one action for a frame."""
    by_frame: dict[int, list[int]] = {}
    for frame, does in sorted({*pairs}):
        by_frame.setdefault(frame, []).append(does)
    most = max(map(len, by_frame.values()))
    return [tuple([(f, does[i]) for f, does in by_frame.items() if i < len(does)]) for i in range(most)]


def ways_around(
    outer: dict[int, list[tuple[int, int]]], edges: list[tuple[int, int, int]]
) -> tuple[list[int], list[Way]]:
    """Return the ways to pop of ends that lead back to themselves.

    Args:
        outer: For some ends, the frames after which a cycle is left, each with the action after the frame.
        edges: Moves of the graph: an end, the frame that it pops, and the end that follows.

    Returns:
        The end that each way belongs to, and the ways. A way names another one by its place in this list (`Targets.later`).

    Raises:
        PatternTooLarge: The number of ways grows with the stack.
    """
    alive = _leading_out({*outer}, edges)
    inner = [edge for edge in edges if edge[0] in alive and edge[2] in alive]
    width = _widths({e: [f for f, _ in outer.get(e, ())] for e in alive}, inner)
    ends = [e for e in sorted(alive) for _ in range(width[e])]
    first = {e: ends.index(e) for e in alive}
    after: dict[int, list[tuple[int, int]]] = {e: [*outer.get(e, ())] for e in alive}
    for source, f, target in inner:
        after[source] += [(f, Targets.later(first[target] + j)) for j in range(width[target])]
    return ends, [way for e in sorted(alive) for way in ways_of(after[e])]


def _leading_out(found: set[int], edges: list[tuple[int, int, int]]) -> set[int]:
    """Add to some ends, in place, all ends that lead to one of them; return them all."""
    before: dict[int, list[int]] = {}
    for source, _, target in edges:
        before.setdefault(target, []).append(source)
    todo = [*found]
    while todo:
        fresh = {*before.get(todo.pop(), ())} - found
        found |= fresh
        todo.extend(fresh)
    return found


def _widths(outer: dict[int, list[int]], inner: list[tuple[int, int, int]]) -> dict[int, int]:
    """Return how many ways each end needs.

    Args:
        outer: For each end, the frames after which a cycle is left, once for each action.
        inner: Moves of the graph: an end, the frame that it pops, and the end that follows.

    Raises:
        PatternTooLarge: The number grows with the stack.
    """
    width = dict.fromkeys(outer, 0)
    while True:
        frames = {e: Counter(left) for e, left in outer.items()}
        for source, frame, target in inner:
            frames[source][frame] += width[target]
        found = {e: max(counted.values(), default=0) for e, counted in frames.items()}
        if found == width:
            return width
        width = found
        if max(width.values()) > MOST_WAYS:
            raise PatternTooLarge(
                "the grammar is ambiguous where rules end, so that a byte may end any number of them and be read after each; "
                "write its rules so that fewer can go on"
            )


def levels_of(source: Ints, target: Ints, count: int) -> NDArray[np.int64]:
    """Return for each node of a graph the length of the longest path from it, `CYCLIC` if it has no bound."""
    level = np.full(count, CYCLIC)
    blocked = np.bincount(source, minlength=count)
    into = Index(target, count, source)
    now, depth = np.flatnonzero(blocked == 0), 0
    while len(now):
        level[now] = depth
        depth += 1
        _, (before,) = into.under(now)
        blocked -= np.bincount(before, minlength=count)
        now = np.unique(before)
        now = now[blocked[now] == 0]
    return level
