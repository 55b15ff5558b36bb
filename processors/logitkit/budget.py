"""The work budget of a compilation. Building one processor may compile many automata; all of them share one budget."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from logitkit.errors import PatternTooLarge

__all__ = ["made_once", "one_budget", "outside_budget", "spend", "spend_once", "spent", "too_much_work", "took"]

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Budget:
    """The steps counted so far, the maximum, the keys already counted, and the results that may be asked for again."""

    most: int
    spent: int = 0
    counted: set[Hashable] = field(default_factory=set)
    made: dict[Hashable, Any] = field(default_factory=dict)


_budget: ContextVar[_Budget | None] = ContextVar("budget", default=None)


@contextmanager
def one_budget(most: int) -> Iterator[None]:
    """Count all compilation in this block against one budget; inside another such block, count it there.

    Args:
        most: The maximum number of steps of the outermost block.
    """
    if _budget.get() is not None:
        yield
        return
    token = _budget.set(_Budget(most))
    try:
        yield
    finally:
        _budget.reset(token)


@contextmanager
def outside_budget() -> Iterator[None]:
    """Count nothing in this block. A result that is kept for all compilations costs each the same, whichever comes first."""
    token = _budget.set(None)
    try:
        yield
    finally:
        _budget.reset(token)


def spend(steps: int) -> None:
    """Count steps against the current budget, if there is one.

    Raises:
        PatternTooLarge: The budget has fewer steps left.
    """
    budget = _budget.get()
    if budget is not None:
        budget.spent += steps
        if budget.spent > budget.most:
            raise too_much_work(budget.most)


def spend_once(key: Hashable, steps: int) -> None:
    """Count the steps of a finished result once per budget: calls with the same key are counted the first time only.

    Raises:
        PatternTooLarge: The total exceeds the budget, and other steps were counted before. A result alone was checked while it
             was built.
    """
    budget = _budget.get()
    if budget is not None and key not in budget.counted:
        budget.counted.add(key)
        (spend if budget.spent else took)(steps)


def made_once(key: Hashable, make: Callable[[], T]) -> T:
    """Return the result of a key, which is made, and its steps counted, once per budget; outside of any budget each time.

    It does not outlive the compilation. So what a compilation costs does not depend on those before it.

    Args:
        key: Stands for all that the result depends on. It is kept as long as the budget.
        make: Makes the result.
    """
    budget = _budget.get()
    if budget is None:
        return make()
    if key not in budget.made:
        budget.made[key] = make()
    found: T = budget.made[key]
    return found


def took(steps: int) -> None:
    """Count steps whose result was refused: they were work too.

    Never raises; if the budget is exceeded, the next call of `spend` does.
    """
    budget = _budget.get()
    if budget is not None:
        budget.spent += steps


def spent() -> int:
    """Return the number of steps counted so far; 0 outside any budget."""
    budget = _budget.get()
    return 0 if budget is None else budget.spent


def too_much_work(most: int) -> PatternTooLarge:
    """Return the error for compilation that exceeds the work limit."""
    return PatternTooLarge(
        f"compiling the pattern takes more than {most} steps; simplify the pattern, or pass limits=Limits(work=...) with a "
        "larger number"
    )
