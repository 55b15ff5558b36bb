"""How a set of objects is written: listed names in their order, then all others, commas between members."""

from __future__ import annotations

from typing import NamedTuple

from logitkit.json_schema.conjunction import ANYTHING, NOTHING, Conjunction
from logitkit.json_schema.layout import Layout, is_unicode, literal, quoted
from logitkit.json_schema.objects import Count, Objects, Piece, without
from logitkit.json_schema.plan import Plan
from logitkit.json_schema.string_set import StringSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Empty, Node

# So many unlisted names are listed where it matters how many different ones there are.
MOST_LISTED = 64

Counts = tuple[int, ...]


class _Member(NamedTuple):
    """A member, or any of a set of members.

    Args:
        text: The name and the colon.
        value: What its value satisfies.
        required: Whether it must be there.
        counted: Whether it counts for each of the bounds.
    """

    text: Node
    value: Conjunction
    required: bool
    counted: tuple[bool, ...]


def object_plan(objects: Objects, every: StringSet, layout: Layout) -> Plan | None:
    """Return the graph of what follows the opening brace, with the closing one; None if nothing can.

    Args:
        objects: The set.
        every: The set of all names.
        layout: What is written around members.

    Raises:
        UnsupportedSchema: A bound cannot be kept exactly.
    """
    listed = _listed(objects)
    pieces = _pieces(objects.pieces or (Piece(every, ANYTHING),), listed)
    distinct = any(count.minimum > 1 for count in objects.counts)
    if distinct and pieces:
        few = [piece.names.values(MOST_LISTED) for piece in pieces]
        if all(names is not None for names in few):
            listed = [*listed, *[name for names in few for name in names or ()]]
            pieces = []
    if any(objects.value_of(name) == NOTHING or not is_unicode(name) for name in objects.required):
        return None
    required = set(objects.required)
    members = [
        _Member(
            concatenate([quoted(name), layout.colon]),
            objects.value_of(name),
            name in required,
            tuple([count.names is None or count.names.contains(name) for count in objects.counts]),
        )
        for name in listed
        if is_unicode(name) and objects.value_of(name) != NOTHING
    ]
    others = [
        _Member(concatenate([piece.names.tree(), layout.colon]), piece.value, False, counted)
        for piece, counted in _by_count(pieces, objects.counts)
    ]
    return _Writer(objects.counts, members, others, layout).plan()


def _listed(objects: Objects) -> list[str]:
    return list(dict.fromkeys((*objects.order, *objects.required, *objects.properties)))


def _pieces(pieces: tuple[Piece, ...], listed: list[str]) -> list[Piece]:
    left = [Piece(without(piece.names, listed), piece.value) for piece in pieces if piece.value != NOTHING]
    return [piece for piece in left if not piece.names.is_empty]


def _by_count(pieces: list[Piece], counts: tuple[Count, ...]) -> list[tuple[Piece, tuple[bool, ...]]]:
    """Cut pieces so that all names of each count for the same bounds."""
    told: list[tuple[Piece, tuple[bool, ...]]] = [(piece, ()) for piece in pieces]
    for count in counts:
        names = count.names
        if names is None:
            told = [(piece, (*counted, True)) for piece, counted in told]
            continue
        inside = [(Piece(piece.names & names, piece.value), (*counted, True)) for piece, counted in told]
        outside = [(Piece(piece.names - names, piece.value), (*counted, False)) for piece, counted in told]
        told = [(piece, counted) for piece, counted in (*inside, *outside) if not piece.names.is_empty]
    return told


class _Writer:
    """Builds the graph from the start on.

    A state is where in the list of members the object is, whether a member was written last (so that a comma comes, or the end)
    or one has to come, and how many there are, as far as any bound asks.
    """

    def __init__(
        self, counts: tuple[Count, ...], members: list[_Member], others: list[_Member], layout: Layout
    ) -> None:
        self.counts = counts
        self.members = members
        self.others = others
        self.layout = layout
        # Behind this many members, none that is left is required.
        self.free = max((i + 1 for i, member in enumerate(members) if member.required), default=0)
        self._plan = Plan()
        self._todo: list[tuple[str, int, Counts]] = []

    def plan(self) -> Plan:
        start = self._plan.state("start")
        none = (0,) * len(self.counts)
        self._plan.end = self._plan.state("end")
        if self._may_end(0, none):
            self._plan.move(start, literal("}"), None, self._plan.end)
        if self.members or self.others:
            self._plan.move(start, self.layout.opened, None, self._state("next", 0, none))
        while self._todo:
            kind, index, counts = self._todo.pop()
            source = self._plan.state((kind, index, counts))
            if kind == "next":
                self._next(source, index, counts)
                continue
            if self._may_end(index, counts):
                self._plan.move(source, self.layout.closing["}"], None, self._plan.end)
            if index < len(self.members) or self.others:
                self._plan.move(source, self.layout.comma, None, self._state("next", index, counts))
        return self._plan

    def _next(self, source: int, index: int, counts: Counts) -> None:
        """Write one more member: this one, a later one, or an unlisted one."""
        if index < len(self.members):
            member = self.members[index]
            self._member(source, member, index + 1, counts)
            if not member.required and (index + 1 < len(self.members) or self.others):
                self._plan.move(source, Empty(), None, self._state("next", index + 1, counts))
            return
        for member in self.others:
            for counted, count, bound in zip(member.counted, counts, self.counts, strict=True):
                if counted and bound.minimum - count > 1:
                    raise bound.site.refuse(
                        f"at least {bound.minimum - count} different names that are not listed would be needed, and an automaton "
                        "cannot tell whether they are different; list them under 'properties', or give 'propertyNames' an 'enum'"
                    )
            self._member(source, member, index, counts)

    def _member(self, source: int, member: _Member, index: int, counts: Counts) -> None:
        grown = []
        for counted, count, bound in zip(member.counted, counts, self.counts, strict=True):
            more = count + counted
            if bound.maximum is None:
                more = min(more, bound.minimum)
            elif more > bound.maximum:
                return
            grown.append(more)
        self._plan.move(source, member.text, member.value, self._state("behind", index, tuple(grown)))

    def _may_end(self, index: int, counts: Counts) -> bool:
        enough = all(count >= bound.minimum for count, bound in zip(counts, self.counts, strict=True))
        return index >= self.free and enough

    def _state(self, kind: str, index: int, counts: Counts) -> int:
        name = (kind, index, counts)
        if self._plan.is_new(name):
            self._todo.append(name)
        return self._plan.state(name)
