"""Conditions on how many of several things hold, with those that are known put in.

By hand: `oneOf` of the things 0, 1 and 2 is `counted(1, 1, (0, 1, 2))`. Where 1 holds, none of the others may, and where 1 does
not, one of them has to:

>>> either = counted(1, 1, (0, 1, 2))
>>> assigned(either, {1: True})
Counted(least=0, most=0, parts=(0, 2))
>>> assigned(either, {1: False, 2: False})
0
>>> assigned(either, {0: True, 1: True}) == FALSE
True
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

__all__ = ["FALSE", "TRUE", "Counted", "Formula", "assigned", "counted", "things_of"]


class Counted(NamedTuple):
    """A number of some formulas hold.

    Args:
        least: The least number.
        most: The greatest number; None: all may hold.
        parts: The formulas.
    """

    least: int
    most: int | None
    parts: tuple[Formula, ...]


# A thing of which it is not known whether it holds has a number.
Formula: TypeAlias = "Counted | int"

TRUE, FALSE = Counted(0, None, ()), Counted(1, None, ())


def counted(least: int, most: int | None, parts: Iterable[Formula]) -> Formula:
    """Return the formula that a number of some formulas hold, without those that are known."""
    left = [part for part in parts if part != FALSE]
    sure = len(left)
    left = [part for part in left if part != TRUE]
    sure -= len(left)
    least, most = max(least - sure, 0), None if most is None else most - sure
    if least > len(left) or (most is not None and most < 0):
        return FALSE
    most = None if most is None or most >= len(left) else most
    if most is None and least in (1, len(left)):
        # Any of them, or all: it does not matter how often one is listed.
        every = least > 1
        left = [*dict.fromkeys(left)]
        least = len(left) if every else min(least, 1)
        if len(left) == 1 and least:
            return left[0]
    return TRUE if most is None and not least else Counted(least, most, tuple(left))


def assigned(formula: Formula, truth: Mapping[int, bool]) -> Formula:
    """Return what is left of a formula where it is known of some things whether they hold."""
    if isinstance(formula, int):
        holds = truth.get(formula)
        return formula if holds is None else TRUE if holds else FALSE
    if not formula.parts:
        return formula
    return counted(formula.least, formula.most, [assigned(part, truth) for part in formula.parts])


def things_of(formula: Formula) -> Iterator[int]:
    """Yield the things in a formula."""
    if isinstance(formula, int):
        yield formula
        return
    for part in formula.parts:
        yield from things_of(part)
