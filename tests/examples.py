"""How many examples and cases slow tests run: fewer by hand than in CI.

Every change passes CI before it is merged, and CI runs all of them. A run by hand should take a few minutes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

__all__ = ["CI", "examples", "of_all"]

T = TypeVar("T")

CI = bool(os.environ.get("CI"))


def examples(many: int) -> int:
    """Return the number of examples that a property test draws: half of the given number in CI, and an eighth by hand."""
    return -(-many // (2 if CI else 8))


def of_all(cases: Iterable[T], one_in: int) -> list[T]:
    """Return all cases in CI, and evenly spaced ones in a run by hand.

    Args:
        cases: The cases.
        one_in: By hand, one case in this many runs.
    """
    return list(cases)[:: 1 if CI else one_in]
