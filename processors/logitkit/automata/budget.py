"""What one compilation may cost in all, where it is made of many: every automaton on the way takes from the same steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["one_budget", "outside_budget", "spend", "spent"]

_spent: ContextVar[int | None] = ContextVar("steps spent", default=None)


@contextmanager
def one_budget() -> Iterator[None]:
    """Count the steps of all that is compiled in this block together; inside of another such block, with those of that."""
    if _spent.get() is not None:
        yield
        return
    token = _spent.set(0)
    try:
        yield
    finally:
        _spent.reset(token)


@contextmanager
def outside_budget() -> Iterator[None]:
    """Count nothing in this block: what is kept for all compilations costs each the same, whichever comes first."""
    token = _spent.set(None)
    try:
        yield
    finally:
        _spent.reset(token)


def spend(steps: int) -> None:
    """Count the steps of what is done now, if anybody counts."""
    before = _spent.get()
    if before is not None:
        _spent.set(before + steps)


def spent() -> int:
    """Return how many steps were counted so far; 0 outside of any budget."""
    return _spent.get() or 0
