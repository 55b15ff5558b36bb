"""Ways to pop the ends of cycles, against all of them followed one frame after another."""

from __future__ import annotations

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from logitkit.compiler.tokens.effects.cyclic_ends import ways_around
from logitkit.compiler.tokens.tables.targets import Targets
from logitkit.errors import PatternTooLarge
from tests.examples import examples

ENDS, FRAMES = st.integers(0, 3), st.integers(0, 2)
OUTER = st.dictionaries(ENDS, st.lists(st.tuples(FRAMES, st.integers(5, 8)), min_size=1, max_size=4, unique=True))
EDGES = st.lists(st.tuples(ENDS, FRAMES, ENDS), max_size=6, unique=True)
Found = set[tuple[int, tuple[int, ...]]]


def followed(
    end: int, stack: tuple[int, ...], outer: dict[int, list[tuple[int, int]]], edges: list[tuple[int, int, int]]
) -> Found:
    """The actions of an end, each with the frames that are left; the last of the stack is popped first."""
    if not stack:
        return set()
    *left, top = stack
    found: Found = {(does, tuple(left)) for frame, does in outer.get(end, ()) if frame == top}
    for source, frame, target in edges:
        if (source, frame) == (end, top):
            found |= followed(target, tuple(left), outer, edges)
    return found


@settings(max_examples=examples(300))
@example({0: [(0, 5), (0, 6)]}, [(1, 1, 0)], [(0, 1)])
@example({0: [(0, 5)]}, [(1, 1, 0), (2, 1, 1)], [(0, 1, 1)])
@given(OUTER, EDGES, st.lists(st.lists(FRAMES, max_size=5).map(tuple), min_size=5, max_size=20))
def test_ways_do_what_all_ends_do(
    outer: dict[int, list[tuple[int, int]]], edges: list[tuple[int, int, int]], stacks: list[tuple[int, ...]]
) -> None:
    try:
        ends, ways = ways_around(outer, edges)
    except PatternTooLarge:
        assume(False)
    assert len(ends) == len(ways)

    def popped(place: int, stack: tuple[int, ...]) -> Found:
        does = dict(ways[place]).get(stack[-1]) if stack else None
        if does is None:
            return set()
        return popped(Targets.later_place(does), stack[:-1]) if Targets.is_later(does) else {(does, stack[:-1])}

    for end in range(4):
        for stack in stacks:
            found = set[tuple[int, tuple[int, ...]]]().union(
                *(popped(i, stack) for i, own in enumerate(ends) if own == end)
            )
            assert found == followed(end, stack, outer, edges)
