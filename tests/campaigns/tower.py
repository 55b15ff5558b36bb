"""Random towers: configurations in which small parts contain each other many times.

A tower has levels, and each level uses the one below it once or more often. So a few hundred characters ask for any amount of
work, and every loop that depends on it must count its steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

__all__ = ["Tower", "levels_and_end"]

LEVELS = (3, 10, 30, 75, 200, 1000)


@dataclass(frozen=True)
class Tower:
    """A configuration.

    Args:
        what: Its kind.
        config: The configuration, as JSON.
    """

    what: str
    config: str


@st.composite
def levels_and_end(draw: DrawFn, templates: tuple[Any, ...], ends: tuple[Any, ...], most: int) -> tuple[list[Any], Any]:
    """The templates of the levels, and the lowest level."""
    few = draw(st.lists(st.sampled_from(templates), min_size=1, max_size=3))
    levels = draw(st.sampled_from([count for count in LEVELS if count <= most]))
    return [few[i % len(few)] for i in range(levels)], draw(st.sampled_from(ends))
