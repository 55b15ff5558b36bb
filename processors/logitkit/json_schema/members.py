"""The members that an object may have, as they are written, and the bounds on how many there are."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.conjunction import NOTHING, Conjunction, both, negations
from logitkit.json_schema.objects import Count, Failing
from logitkit.json_schema.plan import Names
from logitkit.patterns.syntax import Node

__all__ = ["Counts", "Fails", "Member", "counts_after", "too_few_listed", "values_after"]

# How many members there are for each bound, as far as it asks.
Counts = tuple[int, ...]


class Fails(IntEnum):
    """Which member fails a schema: none yet, the last one of those that are not listed, or a listed one."""

    NONE = 0
    LAST = 1
    LISTED = 2


class Member(NamedTuple):
    """A member, or any of a set of members.

    Args:
        text: The colon.
        value: The conjunction that its value satisfies.
        required: Whether it must be there.
        counted: Whether it counts for each of the bounds.
        failing: The indices of schemas that some member must fail, if this may be the one.
        names: The JSON text of the name, or the names of a set of members.
    """

    text: Node
    value: Conjunction
    required: bool
    counted: tuple[bool, ...]
    failing: tuple[int, ...]
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


def values_after(
    member: Member, before: tuple[Fails, ...], failing: tuple[Failing, ...]
) -> list[tuple[Conjunction, tuple[Fails, ...]]]:
    """Return what the value of a member may satisfy, each with which members fail then.

    Args:
        member: The member.
        before: For each schema that some member must fail, which does before it.
        failing: These schemas.
    """
    listed = isinstance(member.names, str)
    found = [(member.value, before)]
    for index in member.failing:
        if before[index] is Fails.LISTED:
            continue
        schema = failing[index].value
        fails, passes = (Fails.LISTED, before[index]) if listed else (Fails.LAST, Fails.NONE)
        found = [
            (both(value, some), (*after[:index], now, *after[index + 1 :]))
            for value, after in found
            for some, now in ((schema, passes), *[(wrong, fails) for wrong in negations(schema)])
        ]
    return [(value, after) for value, after in found if value != NOTHING]


def too_few_listed(bound: Count, missing: int) -> UnsupportedSchema:
    """Return the error for a bound for which several names that are not listed would be needed."""
    return bound.site.refuse(
        f"at least {missing} different names that are not listed would be needed, and an automaton "
        "cannot tell whether they are different; list them under 'properties', or give 'propertyNames' an 'enum'"
    )
