"""For all tests, doctests of the sources included."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

pytest_plugins = ["tests.missing_engines"]


@pytest.fixture(autouse=True)
def registered_kinds() -> Iterator[None]:
    """Remove the kinds that a test or an example registers, so that other tests do not see them."""
    before = set(_kinds())
    yield
    for name, kind in [*_kinds().items()]:
        if name not in before and hasattr(kind, "examples"):
            del _kinds()[name]


def _kinds() -> dict[str, object]:
    module = sys.modules.get("logitkit.protocol.kind")
    return {} if module is None else module.KINDS
