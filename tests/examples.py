"""How much a run by hand tries of what a run in CI tries.

Every change passes CI before it is merged. A run by hand finds what breaks often, in a few minutes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

__all__ = ["CI", "examples", "of_all", "selected"]

T = TypeVar("T")

CI = bool(os.environ.get("CI"))


def examples(many: int) -> int:
    """Return how many examples a property test draws: half of them in CI, and an eighth in a run by hand."""
    return -(-many // (2 if CI else 8))


def of_all(cases: Iterable[T], one_in: int, *, in_ci: int = 1) -> list[T]:
    """Return all cases in CI, and evenly spaced ones in a run by hand.

    Args:
        cases: The cases.
        one_in: A run by hand gets one case of this many.
        in_ci: The same for a run in CI.
    """
    return list(cases)[:: in_ci if CI else one_in]


def selected(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """Return the values of a parameter in the tests that run, for a fixture that takes long to make for each value.

    Only tests of the same file that use the fixture count.

    Args:
        request: The request of the fixture, which belongs to the file.
        parameter: The parameter, which all tests that use the fixture have.
    """
    tests = (test for test in request.session.items if isinstance(test, pytest.Function) and test.path == request.path)
    return [test.callspec.params[parameter] for test in tests if request.fixturename in test.fixturenames]
