"""How a set of objects is written: listed names in their order, then all others, commas between members."""

from __future__ import annotations

from typing import NamedTuple

from logitkit.json_schema.blocks import LARGE_COUNT, LARGE_COUNT_CLOSING, call_block, run_of
from logitkit.json_schema.layout import Layout, literal, ordered, quoted
from logitkit.json_schema.member_names import cut_by_names, names_and_others, possible_names
from logitkit.json_schema.members import (
    FEW_NAMES,
    MOST_NAMES,
    Counts,
    Fails,
    Member,
    any_order_plan,
    counts_after,
    too_few_listed,
    values_after,
    with_required_count,
)
from logitkit.json_schema.objects import Count, Failing, Objects
from logitkit.json_schema.plan import DifferentMembers, Move, Names, Plan
from logitkit.json_schema.string_set import StringSet
from logitkit.patterns.syntax import Empty

# More names than these are not looked for where bounds ask for them.
MOST_WANTED = 1000


def object_plan(objects: Objects, every: StringSet, layout: Layout, remembers: bool = False) -> Plan | None:
    """Return the graph of what follows the opening brace, with the closing one; None if nothing can.

    Args:
        objects: The set.
        every: The set of all names.
        layout: The white space around members.
        remembers: Whether a row can remember the names that are not listed. The plan says whether it must.

    Raises:
        UnsupportedSchema: A bound cannot be kept exactly.
    """
    listed, pieces = names_and_others(objects, every)
    listed = ordered(listed, layout.member_order)
    required = set(objects.required)
    possible = possible_names(objects, listed)
    if not required.issubset(possible):
        return None
    members = [
        Member(
            layout.colon,
            objects.value_of(name),
            name in required,
            tuple([count.names is None or count.names.contains(name) for count in objects.counts]),
            tuple([i for i, some in enumerate(objects.failing) if some.names.contains(name)]),
            quoted(name),
        )
        for name in possible
    ]
    sets = [*[count.names for count in objects.counts], *[some.names for some in objects.failing]]
    counts = len(objects.counts)
    others = [
        Member(layout.colon, piece.value, False, inside[:counts], _where(inside[counts:]), piece.names)
        for piece, inside in cut_by_names(pieces, sets)
    ]
    number = {name: i for i, name in enumerate(possible)}
    needs = [(number[name], number[needed]) for name, needed in objects.needs if name in number]
    if layout.any_order:
        # A list of tools has many objects, whose sets of names would be too many states together.
        most = FEW_NAMES if layout.member_order == "any" else MOST_NAMES
        if len(members) > most and remembers and not (needs or objects.failing) and _count_all(objects.counts):
            return _remembered_order(objects.counts, members, others, layout)
        return any_order_plan(objects.counts, objects.failing, members, others, needs, layout)
    return _Writer(objects.counts, objects.failing, members, others, needs, layout, remembers).plan()


def _count_all(counts: tuple[Count, ...]) -> bool:
    """Whether bounds are on all members, not on those with some names."""
    return all(count.names is None for count in counts)


def _remembered_order(
    counts: tuple[Count, ...], members: list[Member], others: list[Member], layout: Layout
) -> Plan | None:
    """Return the graph of members in any order, whose names a row remembers; None if there are too few.

    The row never gets stuck: each member that is still required has a name that is left, and if there are too few others, all
    names are used up where a member is asked for.
    """
    least = max([count.minimum for count in counts], default=0)
    if not others and least > len(members):
        return None
    if not others:
        # An object has at most one member of each name, so a larger bound needs no states.
        counts = tuple([c._replace(maximum=None) if (c.maximum or 0) >= len(members) else c for c in counts])
    bounds, every = with_required_count(counts, members, others)
    plan = _Writer(bounds, (), [], every, [], layout, True).plan()
    # Near a largest number of members, only required ones are possible.
    plan.remembers, plan.has_same_names = True, all(count.maximum is None for count in counts)
    required = tuple([member.value for member in members if member.required])
    values, other_values = tuple([member.value for member in members]), tuple([member.value for member in others])
    plan.different = DifferentMembers(len(required), required), DifferentMembers(least, values, other_values)
    return plan


def _where(inside: tuple[bool, ...]) -> tuple[int, ...]:
    return tuple([i for i, is_inside in enumerate(inside) if is_inside])


class _Owed(NamedTuple):
    """The conditions of earlier members on later ones.

    Args:
        needed: Indices of members that must be there.
        banned: Indices of members that must not.
    """

    needed: frozenset[int] = frozenset()
    banned: frozenset[int] = frozenset()


class _State(NamedTuple):
    """Where in an object one is.

    Args:
        after_member: Whether a member was written last, so that a comma comes, or the end; else one has to come.
        place: The first listed member that may still come.
        counts: How many members there are for each bound, as far as it asks.
        owed: The conditions on those that may still come.
        fails: Which member fails each schema that some member must fail.
    """

    after_member: bool
    place: int
    counts: Counts
    owed: _Owed
    fails: tuple[Fails, ...]


def _unlisted_wanted(members: list[Member], counts: tuple[Count, ...]) -> int:
    """Return the most names that are not listed for which all bounds together may ask: required members are there anyway."""
    required = [sum(member.required and member.counted[i] for member in members) for i in range(len(counts))]
    return sum(max(bound.minimum - there, 0) for bound, there in zip(counts, required, strict=True))


def _have_enough(others: list[Member], wanted: int) -> bool:
    """Whether each set of names that are not listed has as many of them as are wanted, so that none are lacking in the end.

    A member is written only if some bound asks for it, or if there are names left for those that ask.
    """
    return wanted <= MOST_WANTED and all(
        names.strings.values(wanted + len(names.excluded)) is None
        for member in others
        for names in [member.names]
        if isinstance(names, Names)
    )


class _Writer:
    """Builds the graph from the start on."""

    def __init__(
        self,
        counts: tuple[Count, ...],
        failing: tuple[Failing, ...],
        members: list[Member],
        others: list[Member],
        needs: list[tuple[int, int]],
        layout: Layout,
        remembers: bool,
    ) -> None:
        wanted = _unlisted_wanted(members, counts)
        self.can_remember = remembers and _have_enough(others, wanted)
        self.forgets = (
            f"for more than {MOST_WANTED} of them" if remembers and wanted > MOST_WANTED else layout.forgets_names
        )
        self.counts = counts
        self.failing = failing
        self.members = members
        self.others = others
        self.layout = layout
        # After this many members, none that is left is required.
        self.free = max((i + 1 for i, member in enumerate(members) if member.required), default=0)
        self.needed_by: dict[int, set[int]] = {}
        self.needing: dict[int, set[int]] = {}
        for name, needed in needs:
            if needed > name:
                self.needed_by.setdefault(name, set()).add(needed)
            else:
                self.needing.setdefault(needed, set()).add(name)
        self._plan = Plan()

    def plan(self) -> Plan:
        start = self._plan.state("start")
        none = _State(False, 0, (0,) * len(self.counts), _Owed(), (Fails.NONE,) * len(self.failing))
        self._plan.end = self._plan.state("end")
        if self._may_end(none):
            self._plan.move(start, literal("}"), None, self._plan.end)
        if self.members or self.others:
            self._plan.move(start, self.layout.opened, None, self._plan.reach(none))
        while self._plan.todo:
            state = self._plan.todo.pop()
            source = self._plan.state(state)
            if not state.after_member:
                self._next(source, state)
                continue
            if self._may_end(state):
                self._plan.move(source, self.layout.closing["}"], None, self._plan.end)
            if self._calls_block(source, state):
                continue
            if state.place < len(self.members) or self.others:
                self._plan.move(source, self.layout.comma, None, self._plan.reach(state._replace(after_member=False)))
        return self._plan

    def _calls_block(self, source: int, state: _State) -> bool:
        """Add the moves of the next members as a block, if all of them may be the same, and return whether that is so."""
        if not (self.layout.blocks and self.others and state.place == len(self.members)) or self.failing:
            return False
        counted = self.others[0].counted
        bounds = [*zip(state.counts, self.counts, counted, strict=True)]
        left = [bound.maximum - count for count, bound, counts in bounds if counts and bound.maximum is not None]
        enough = all(count + counts >= bound.minimum for count, bound, counts in bounds)
        alike = all(member.counted == counted for member in self.others)
        large = LARGE_COUNT_CLOSING if self.layout.within_tokens else LARGE_COUNT
        if not (left and alike and enough and max(b.maximum or 0 for b in self.counts) > large):
            return False

        def after(more: int, _: int) -> int:
            grown = [count + more * counts for count, _, counts in bounds]
            kept = [g if b.maximum is not None else min(g, b.minimum) for g, b in zip(grown, self.counts, strict=True)]
            return self._plan.reach(state._replace(after_member=False, counts=tuple(kept)))

        items = tuple([Move(member.text, member.value, 0, member.names) for member in self.others])
        run = run_of(items, self.layout, "}")
        return call_block(self._plan, source, run, min(left), True, after, self._plan.end)

    def _next(self, source: int, state: _State) -> None:
        """Write one more member: this one, a later one, or an unlisted one."""
        index, owed = state.place, state.owed
        if index < len(self.members):
            member = self.members[index]
            needed, banned = owed.needed - {index}, owed.banned - {index}
            if index not in owed.banned:
                more = _Owed(needed | self.needed_by.get(index, set()), banned)
                self._member(source, member, state, index + 1, more)
            may_skip = not member.required and index not in owed.needed
            if may_skip and (index + 1 < len(self.members) or self.others):
                less = _Owed(needed, banned | self.needing.get(index, set()))
                self._plan.move(source, Empty(), None, self._plan.reach(state._replace(place=index + 1, owed=less)))
            return
        for member in self.others:
            for counted, count, bound in zip(member.counted, state.counts, self.counts, strict=True):
                if counted and bound.minimum - count > 1:
                    # They need to differ.
                    self._plan.remembers = True
                    if not self.can_remember:
                        raise too_few_listed(bound, bound.minimum - count, self.forgets)
            self._member(source, member, state, index, owed)

    def _member(self, source: int, member: Member, before: _State, place: int, owed: _Owed) -> None:
        """Write a member, after which the members from a place on may come."""
        grown = counts_after(member, before.counts, self.counts)
        if grown is None:
            return
        for value, fails in values_after(member, before.fails, self.failing):
            target = self._plan.reach(_State(True, place, grown, owed, fails))
            self._plan.move(source, member.text, value, target, member.names)

    def _may_end(self, state: _State) -> bool:
        enough = all(count >= bound.minimum for count, bound in zip(state.counts, self.counts, strict=True))
        return state.place >= self.free and not state.owed.needed and enough and all(state.fails)
