"""How a set of objects is written: listed names in their order, then all others, commas between members."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from logitkit.json_schema.blocks import LARGE_COUNT, LARGE_COUNT_CLOSING, call_block, run_of
from logitkit.json_schema.conjunction import ANYTHING, NOTHING, Conjunction
from logitkit.json_schema.layout import Layout, is_unicode, literal, quoted
from logitkit.json_schema.members import (
    Counts,
    Fails,
    Member,
    any_order_plan,
    counts_after,
    too_few_listed,
    values_after,
)
from logitkit.json_schema.objects import Count, Failing, Objects, Piece
from logitkit.json_schema.plan import Move, Names, Plan
from logitkit.json_schema.string_set import StringSet, without
from logitkit.patterns.syntax import Empty

# A set of at most this many names is listed name by name, so that none comes twice.
MOST_LISTED = 256


class _Others(NamedTuple):
    """Members of which any number may be there: their names, and what their values satisfy."""

    names: Names
    value: Conjunction


def object_plan(objects: Objects, every: StringSet, layout: Layout) -> Plan | None:
    """Return the graph of what follows the opening brace, with the closing one; None if nothing can.

    Args:
        objects: The set.
        every: The set of all names.
        layout: The white space around members.

    Raises:
        UnsupportedSchema: A bound cannot be kept exactly.
    """
    listed, pieces = _names(objects, every)
    required = set(objects.required)
    possible = _possible(objects, listed)
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
        for piece, inside in _cut(pieces, sets)
    ]
    number = {name: i for i, name in enumerate(possible)}
    needs = [(number[name], number[needed]) for name, needed in objects.needs if name in number]
    if layout.any_order:
        return any_order_plan(objects.counts, objects.failing, members, others, needs, layout)
    return _Writer(objects.counts, objects.failing, members, others, needs, layout).plan()


def names_in_order(objects: Objects, every: StringSet) -> list[str]:
    """Return the names of a set of objects that come first, in their order; `every` is the set of all names."""
    return _names(objects, every)[0]


def few_names(objects: Objects, every: StringSet) -> list[str] | None:
    """Return all names that members of a set of objects may have, in their order; None if they are not few."""
    listed, others = _names(objects, every)
    return None if others else _possible(objects, listed)


def _names(objects: Objects, every: StringSet) -> tuple[list[str], list[_Others]]:
    """Return the names that are listed, in their order, and the members that are not."""
    listed = _listed(objects)
    pieces = _pieces(objects.pieces or (Piece(every, ANYTHING),), listed)
    few = [None if piece.names.excluded else piece.names.strings.values(MOST_LISTED) for piece in pieces]
    listed = [*listed, *sorted(name for names in few for name in names or ())]
    return listed, [piece for piece, names in zip(pieces, few, strict=True) if names is None]


def _where(inside: tuple[bool, ...]) -> tuple[int, ...]:
    return tuple([i for i, is_inside in enumerate(inside) if is_inside])


def _possible(objects: Objects, listed: list[str]) -> list[str]:
    """Return the names that may be there at all, with all that they need."""
    possible = dict.fromkeys(n for n in listed if is_unicode(n) and objects.value_of(n) != NOTHING)
    left = list(objects.needs)
    while lacking := {name for name, needed in left if name in possible and needed not in possible}:
        for name in lacking:
            del possible[name]
    return list(possible)


def _listed(objects: Objects) -> list[str]:
    needing = [name for pair in objects.needs for name in pair]
    return list(
        dict.fromkeys((*objects.order, *objects.required, *needing, *objects.properties, *objects.possible_names))
    )


def _pieces(pieces: tuple[Piece, ...], listed: list[str]) -> list[_Others]:
    """Return the members that are not listed."""
    found = []
    for piece in pieces:
        if piece.value == NOTHING:
            continue
        # A finite part of an infinite set is left out by name, so that all objects share the automaton of the set.
        if piece.names.longest is None:
            excluded = tuple([name for name in listed if piece.names.contains(name)])
            found.append(_Others(Names(piece.names, excluded), piece.value))
        elif not (left := without(piece.names, listed)).is_empty:
            found.append(_Others(Names(left), piece.value))
    return found


def _cut(pieces: list[_Others], sets: Iterable[StringSet | None]) -> list[tuple[_Others, tuple[bool, ...]]]:
    """Cut pieces so that all names of each are in the same sets of names; None: the set of all names."""
    told: list[tuple[_Others, tuple[bool, ...]]] = [(piece, ()) for piece in pieces]
    for names in sets:
        if names is None:
            told = [(piece, (*sides, True)) for piece, sides in told]
            continue
        told = [
            (part, (*sides, inside))
            for inside, operation in ((True, StringSet.__and__), (False, StringSet.__sub__))
            for piece, sides in told
            for part in _pieces((Piece(operation(piece.names.strings, names), piece.value),), [*piece.names.excluded])
        ]
    return told


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
    ) -> None:
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
                    raise too_few_listed(bound, bound.minimum - count)
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
