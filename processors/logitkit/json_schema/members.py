"""The members that an object may have, as they are written, and the bounds on how many there are."""

from __future__ import annotations

from typing import NamedTuple

from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.conjunction import Conjunction
from logitkit.json_schema.objects import Count
from logitkit.json_schema.plan import Names
from logitkit.patterns.syntax import Node

__all__ = ["Counts", "Member", "counts_after", "too_few_listed"]

# How many members there are for each bound, as far as it asks.
Counts = tuple[int, ...]


class Member(NamedTuple):
    """A member, or any of a set of members.

    Args:
        text: The colon.
        value: What its value satisfies.
        required: Whether it must be there.
        counted: Whether it counts for each of the bounds.
        names: The JSON text of the name, or the names of a set of members.
    """

    text: Node
    value: Conjunction
    required: bool
    counted: tuple[bool, ...]
    names: Names | str


def counts_after(member: Member, before: Counts, bounds: tuple[Count, ...]) -> Counts | None:
    """Return the numbers of members after one more, or None if that is too many."""
    grown = []
    for counted, count, bound in zip(member.counted, before, bounds, strict=True):
        more = count + counted
        if bound.maximum is None:
            more = min(more, bound.minimum)
        elif more > bound.maximum:
            return None
        grown.append(more)
    return tuple(grown)


def too_few_listed(bound: Count, missing: int) -> UnsupportedSchema:
    """Return the error for a bound for which several names that are not listed would be needed."""
    return bound.site.refuse(
        f"at least {missing} different names that are not listed would be needed, and an automaton "
        "cannot tell whether they are different; list them under 'properties', or give 'propertyNames' an 'enum'"
    )
