"""The members that an object may have, as they are written, and the bounds on how many there are; also in any order.

In any order, there are two ways to know which listed names are left. With few names, each set of names that have been written has
states of its own. With more, the row remembers the names, so that none comes twice. Then it is enough to count the required ones:
of `{"a": 1, "b": 2}`, where both are required, two different names are all of them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.conjunction import NOTHING, Conjunction, both, negations
from logitkit.json_schema.layout import Layout, literal
from logitkit.json_schema.objects import Count, Failing, Site
from logitkit.json_schema.plan import Names, Plan
from logitkit.patterns.syntax import Node

__all__ = [
    "FEW_NAMES",
    "MOST_NAMES",
    "Counts",
    "Fails",
    "Member",
    "any_order_plan",
    "counts_after",
    "too_few_listed",
    "values_after",
    "with_required_count",
]

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


def too_few_listed(bound: Count, missing: int, forgets: str | None) -> UnsupportedSchema:
    """Return the error for a bound for which several names that are not listed would be needed.

    Args:
        bound: The bound.
        missing: How many.
        forgets: Where it is that a row cannot remember them; None: there may be too few.
    """
    why = "there may be too few" if forgets is None else f"{forgets}, a row cannot remember them"
    return bound.site.refuse(
        f"at least {missing} different names that are not listed would be needed, and {why}, so that an automaton "
        "cannot tell whether they are different; list them under 'properties', or give 'propertyNames' an 'enum'"
    )


# The most listed names of which all sets have states; and in lists of tools, where a row can remember names.
MOST_NAMES = 8
FEW_NAMES = 3


class _State(NamedTuple):
    """Where in an object one is.

    Args:
        after_member: Whether a member was written last, so that a comma comes, or the end; else one has to come.
        written: The listed members that have been written, as bits.
        counts: How many members there are for each bound, as far as it asks.
        fails: Which member fails each schema that some member must fail.
    """

    after_member: bool
    written: int
    counts: Counts
    fails: tuple[Fails, ...]


def any_order_plan(
    counts: tuple[Count, ...],
    failing: tuple[Failing, ...],
    members: list[Member],
    others: list[Member],
    needs: list[tuple[int, int]],
    layout: Layout,
) -> Plan:
    """Return the graph of what follows the opening brace, with the closing one.

    Args:
        counts: The bounds on the numbers of members.
        failing: Schemas that some member must fail.
        members: The listed members.
        others: The members that are not listed.
        needs: Pairs of indices of listed members, of which the first needs the second.
        layout: The white space around members.

    Raises:
        UnsupportedSchema: There are too many listed names, or a bound cannot be kept exactly.
    """
    _check_listed(counts, members, others, layout)
    required = sum(1 << index for index, member in enumerate(members) if member.required)
    plan = Plan()
    start = plan.state("start")
    plan.end = plan.state("end")
    first = _State(False, 0, (0,) * len(counts), (Fails.NONE,) * len(failing))

    if _may_end(first, counts, needs, required):
        plan.move(start, literal("}"), None, plan.end)
    if members or others:
        plan.move(start, layout.opened, None, plan.reach(first))
    while plan.todo:
        state = plan.todo.pop()
        source = plan.state(state)
        left = [index for index in range(len(members)) if not state.written >> index & 1]
        if state.after_member:
            if _may_end(state, counts, needs, required):
                plan.move(source, layout.closing["}"], None, plan.end)
            if left or others:
                plan.move(source, layout.comma, None, plan.reach(state._replace(after_member=False)))
            continue
        more = [(members[index], state.written | 1 << index) for index in left]
        for member, written in [*more, *((member, state.written) for member in others)]:
            grown = counts_after(member, state.counts, counts)
            if grown is None:
                continue
            for value, fails in values_after(member, state.fails, failing):
                plan.move(source, member.text, value, plan.reach(_State(True, written, grown, fails)), member.names)
    return plan


def with_required_count(
    counts: tuple[Count, ...], members: list[Member], others: list[Member]
) -> tuple[tuple[Count, ...], list[Member]]:
    """Return the bounds with one more, on how many required members there are, and all members with what they count for.

    Args:
        counts: The bounds, on all members.
        members: The listed members.
        others: The members that are not listed.
    """
    required = sum(member.required for member in members)
    bound = Count(None, required, None, Site("#", "required"))
    every = [*members, *others]
    return (*counts, bound), [m._replace(counted=(*m.counted, m.required), required=False) for m in every]


def _may_end(state: _State, counts: tuple[Count, ...], needs: list[tuple[int, int]], required: int) -> bool:
    """Whether an object is complete; `required` has the bits of the members that it must have."""
    enough = all(count >= bound.minimum for count, bound in zip(state.counts, counts, strict=True))
    kept = all(state.written >> needed & 1 for name, needed in needs if state.written >> name & 1)
    return enough and kept and state.written & required == required and all(state.fails)


def _check_listed(counts: tuple[Count, ...], members: list[Member], others: list[Member], layout: Layout) -> None:
    if len(members) > MOST_NAMES:
        where = layout.forgets_names or "with 'dependentRequired', or limits on some names only"
        raise UnsupportedSchema(
            f"with {layout.any_order_option}, an object has {len(members)} listed names; {where}, a row cannot remember them, "
            f"and each set of them would need a state of its own; allowed are {MOST_NAMES}. Leave out {layout.any_order_option}: "
            "then members come in the order of the schema"
        )
    for place, bound in enumerate(counts):
        listed = sum(member.required and member.counted[place] for member in members)
        if bound.minimum - listed > 1 and any(member.counted[place] for member in others):
            raise too_few_listed(bound, bound.minimum - listed, f"with {layout.any_order_option}")
