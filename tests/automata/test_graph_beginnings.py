"""The positions that begin at each state of a graph are those of all states that it leads to without reading."""

from __future__ import annotations

import random

import pytest

from logitkit.compiler.characters.components import reached
from logitkit.compiler.characters.positions import PositionBuilder
from logitkit.limits import DEFAULT_LIMITS


@pytest.mark.parametrize("seed", range(300))
def test_beginnings_are_those_of_all_states_reached(seed: int) -> None:
    """Most states have at most one way without reading, as in objects with optional members; others branch, or go in circles."""
    drawn = random.Random(seed)
    states = drawn.randint(1, 7)
    own = [tuple(range(10 * state, 10 * state + drawn.randint(0, 2))) for state in range(states)]
    empty = [[drawn.randrange(states) for _ in range(drawn.choice([0, 1, 1, 1, 2]))] for _ in range(states)]
    accepting = tuple([drawn.random() < 0.3 for _ in range(states)])
    first, ends = PositionBuilder(DEFAULT_LIMITS).beginnings(own, empty, accepting)
    for state in range(states):
        after = reached(state, empty.__getitem__)
        assert sorted(first[state]) == sorted({position for other in after for position in own[other]})
        assert ends[state] == any(accepting[other] for other in after)
