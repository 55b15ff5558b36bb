"""How a set of objects is written whose members may come in any order.

Which of the listed names have been written must be known: each of them comes at most once, and some must be there. So there is a
state for each set of them, twice as many with each name:

    {}  --"a":1-->  {a}  --,"b":2-->  {a, b}  --}-->
    {}  --"b":2-->  {b}  --,"a":1-->  {a, b}
"""

from __future__ import annotations

from typing import NamedTuple

from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.layout import Layout, literal
from logitkit.json_schema.members import Counts, Fails, Member, counts_after, too_few_listed, values_after
from logitkit.json_schema.objects import Count, Failing
from logitkit.json_schema.plan import Plan

__all__ = ["any_order_plan"]

# The most listed names of which all sets have states.
MOST_NAMES = 8


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
    _check_listed(counts, members, others)
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


def _may_end(state: _State, counts: tuple[Count, ...], needs: list[tuple[int, int]], required: int) -> bool:
    """Whether an object is complete; `required` has the bits of the members that it must have."""
    enough = all(count >= bound.minimum for count, bound in zip(state.counts, counts, strict=True))
    kept = all(state.written >> needed & 1 for name, needed in needs if state.written >> name & 1)
    return enough and kept and state.written & required == required and all(state.fails)


def _check_listed(counts: tuple[Count, ...], members: list[Member], others: list[Member]) -> None:
    if len(members) > MOST_NAMES:
        raise UnsupportedSchema(
            f"with any_order, an object has {len(members)} listed names, of which each set would need a state of its own; "
            f"allowed are {MOST_NAMES}. Leave out any_order, which then is the order of the schema"
        )
    for place, bound in enumerate(counts):
        listed = sum(member.required and member.counted[place] for member in members)
        if bound.minimum - listed > 1 and any(member.counted[place] for member in others):
            raise too_few_listed(bound, bound.minimum - listed)
