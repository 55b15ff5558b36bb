"""Sets of JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.conjunction import ANYTHING, NOTHING, Conjunction, both, negations
from logitkit.json_schema.string_set import StringSet, without

# The most sets into which the names that are not listed may fall.
MOST_PIECES = 64
# The most sets that clauses may be made of.
MOST_SETS = 500


class Site(NamedTuple):
    """Where a keyword stands; None stands for the negation of a schema."""

    pointer: str
    keyword: str | None

    def refuse(self, reason: str) -> UnsupportedSchema:
        """Return the error that says why the keyword cannot be honoured."""
        return UnsupportedSchema(reason, self.pointer, self.keyword)


class Piece(NamedTuple):
    """The conditions on the values of some names, as far as the names are not listed."""

    names: StringSet
    value: Conjunction


class Count(NamedTuple):
    """How many members have a name of a set; None: any name."""

    names: StringSet | None
    minimum: int
    maximum: int | None
    site: Site


class Failing(NamedTuple):
    """Some member has a name of a set, and a value that does not satisfy a conjunction; what asks for it stands at a site.

    If such a name is not listed, it may occur twice in a text, and the last value holds. So of the members that are not listed,
    the last one with such a name is one whose value fails; or a member that is listed does.
    """

    names: StringSet
    value: Conjunction
    site: Site | None = None


class Clause(NamedTuple):
    """A number of several unions of objects hold an object, such as exactly one of the branches of a `oneOf`.

    Args:
        least: The least number.
        most: The greatest number; None: all may hold it.
        parts: The unions.
        site: Where the keyword stands that asks for it.
    """

    least: int
    most: int | None
    parts: tuple[tuple[Objects, ...], ...]
    site: Site | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Objects:
    """The objects whose members are as said.

    Args:
        properties: Names that are listed, with what their values satisfy.
        pieces: Disjoint sets that together hold all names, for those that are not listed; none: any name with any value.
        required: Names that must be there.
        order: Names in the order of their first appearance under `properties`.
        possible_names: Names in the order of an `enum` under `propertyNames`, beside which there are none.
        counts: Bounds on the numbers of members.
        needs: Pairs of names of which the first is not there without the second.
        failing: The conditions that some members must not satisfy.
        evaluated: Names that some keyword has looked at, as far as `unevaluatedProperties` has to know; None: none.
        constant: Whether it is one object as `const` gives it, whose order counts.
        whole: That object, where nothing else is asked of it.
        clauses: Conditions that would take too many sets if each combination had one.
        sets: How many sets it is made of: itself, and those in clauses.
    """

    properties: Mapping[str, Conjunction] = field(default_factory=dict)
    pieces: tuple[Piece, ...] = ()
    required: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    possible_names: tuple[str, ...] = ()
    counts: tuple[Count, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()
    failing: tuple[Failing, ...] = ()
    evaluated: StringSet | None = None
    constant: bool = False
    whole: Mapping[str, Any] | None = None
    clauses: tuple[Clause, ...] = ()
    sets: int = 1

    @classmethod
    def of_clause(cls, clause: Clause) -> Objects:
        """Return the objects of a clause, with the order of members of its unions."""
        every = [objects for part in clause.parts for objects in part]
        order = tuple(dict.fromkeys([name for objects in every for name in objects.order]))
        return cls(order=order, clauses=(clause,), sets=1 + sum([objects.sets for objects in every]))

    @property
    def without_clauses(self) -> Objects:
        """The same set without its clauses."""
        return replace(self, clauses=()) if self.clauses else self

    @property
    def is_simple(self) -> bool:
        """Whether each member, and each name that is missing, tells by itself whether an object is of the set."""
        return not (self.counts or self.needs or self.failing or self.constant)

    @property
    def may_be_in_clause(self) -> bool:
        """Whether it and all that it is made of are simple, and no keyword asks what others have looked at."""
        if self.sets > MOST_SETS or self.evaluated is not None or not self.is_simple:
            return False
        return all(o.may_be_in_clause for clause in self.clauses for part in clause.parts for o in part)

    @property
    def tells_by_member(self) -> bool:
        """Whether one look at each member also tells that an object is not of the set.

        A name that is not listed may come twice, and the last value holds.
        """
        parts = [objects for clause in self.clauses for part in clause.parts for objects in part]
        values = all(piece.value in (ANYTHING, NOTHING) for piece in self.pieces)
        return self.is_simple and values and all(objects.tells_by_member for objects in parts)

    @property
    def is_everything(self) -> bool:
        """Whether every object is of the set, for sure."""
        return not (
            self.required
            or self.counts
            or self.needs
            or self.failing
            or self.clauses
            or any(self.properties.values())
            or any(p.value for p in self.pieces)
        )

    @property
    def is_empty(self) -> bool:
        """Whether no object is of the set, for sure."""
        if any(self.value_of(name) == NOTHING for name in self.required):
            return True
        return any(c.maximum is not None and c.minimum > c.maximum for c in self.counts)

    @property
    def size(self) -> int:
        """How much work it is to look at all of it."""
        parts = (self.properties, self.pieces, self.required, self.counts, self.needs, self.failing, self.clauses)
        return 1 + sum(map(len, parts))

    def value_of(self, name: str) -> Conjunction:
        """Return what the value of a name satisfies."""
        found = self.properties.get(name)
        if found is not None:
            return found
        return next((piece.value for piece in self.pieces if piece.names.contains(name)), ANYTHING)

    def blaming(self, site: Site) -> Objects:
        """Return the same set, in which negations and clauses without a site have this one."""
        if all(some.site for some in self.failing) and all(clause.site for clause in self.clauses):
            return self
        failing = tuple([some._replace(site=some.site or site) for some in self.failing])
        return replace(self, failing=failing, clauses=tuple([c._replace(site=c.site or site) for c in self.clauses]))

    def __and__(self, other: Objects) -> Objects:
        if other.constant and not self.constant:
            return other & self
        if not other.pieces and not other.properties:
            properties: Mapping[str, Conjunction] = self.properties
        elif not self.pieces and not self.properties:
            properties = other.properties
        else:
            names = dict.fromkeys((*self.properties, *other.properties))
            properties = {name: both(self.value_of(name), other.value_of(name)) for name in names}
        evaluated = self.evaluated
        if other.evaluated is not None:
            evaluated = other.evaluated if evaluated is None else evaluated | other.evaluated
        required = _united(self.required, other.required)
        narrower = other.counts or other.needs or other.failing or other.clauses
        as_before = properties == self.properties and required == self.required and not narrower
        return Objects(
            properties,
            _common(self.pieces, other.pieces),
            required,
            self.order if self.constant else _united(self.order, other.order),
            _united(self.possible_names, other.possible_names),
            _tightened(self.counts + other.counts),
            tuple(dict.fromkeys(self.needs + other.needs)),
            tuple({(some.names.key, some.value): some for some in self.failing + other.failing}.values()),
            evaluated,
            self.constant,
            self.whole if as_before else None,
            tuple(dict.fromkeys(self.clauses + other.clauses)),
            self.sets + other.sets - 1,
        )

    def complement(self) -> list[Objects]:
        """Return the objects that are not of the set, as a union.

        Raises:
            UnsupportedSchema: There is no such form of it; the pointer is the caller's to say.
        """
        found = [Objects({name: NOTHING}, required=(), order=()) for name in self.required]
        for name, value in self.properties.items():
            found += [Objects({name: wrong}, required=(name,)) for wrong in negations(value) if value]
        listed = list(self.properties)
        for piece in self.pieces:
            if piece.value == ANYTHING:
                continue
            names = without(piece.names, listed)
            if names.is_empty:
                continue
            if piece.value != NOTHING:
                found.append(Objects(failing=(Failing(names, piece.value),)))
                continue
            found.append(Objects(counts=(Count(names, 1, None, Site("#", "not")),)))
        for count in self.counts:
            if count.minimum:
                found.append(Objects(counts=(Count(count.names, 0, count.minimum - 1, count.site),)))
            if count.maximum is not None:
                found.append(Objects(counts=(Count(count.names, count.maximum + 1, None, count.site),)))
        found += [Objects({needed: NOTHING}, required=(name,)) for name, needed in self.needs]
        found += [Objects(pieces=pieces_of(some.names, some.value, ANYTHING)) for some in self.failing]
        for least, most, parts, _ in self.clauses:
            found += [Objects.of_clause(Clause(0, least - 1, parts))] if least else []
            found += [] if most is None else [Objects.of_clause(Clause(most + 1, None, parts))]
        return [replace(objects, order=self.order) for objects in found]


EVERY_OBJECT = Objects()


def pieces_of(names: StringSet, inside: Conjunction, outside: Conjunction) -> tuple[Piece, ...]:
    """Return the pieces of which one is a set of names and the other its complement."""
    if names.is_everything:
        return (Piece(names, inside),)
    if names.is_empty:
        return (Piece(~names, outside),)
    return (Piece(names, inside), Piece(~names, outside))


def _common(one: tuple[Piece, ...], other: tuple[Piece, ...]) -> tuple[Piece, ...]:
    if not one or not other or one == other:
        return one or other
    if len(one) * len(other) > MOST_PIECES * 4:
        raise UnsupportedSchema(f"the patterns divide names into more than {MOST_PIECES} sets; use fewer patterns")
    found: list[Piece] = []
    for a in one:
        for b in other:
            names = a.names if b.names.is_everything else b.names if a.names.is_everything else a.names & b.names
            if not names.is_empty:
                found.append(Piece(names, both(a.value, b.value)))
    if len(found) > MOST_PIECES:
        raise UnsupportedSchema(f"the patterns divide names into more than {MOST_PIECES} sets; use fewer patterns")
    return tuple(found)


def _united(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return one if not other or one == other else other if not one else tuple(dict.fromkeys(one + other))


def _tightened(counts: tuple[Count, ...]) -> tuple[Count, ...]:
    """Join the bounds on all members; the site is that of the tightest minimum, which is what may be hard."""
    over_all = [count for count in counts if count.names is None]
    if len(over_all) < 2:
        return counts
    most = [count.maximum for count in over_all if count.maximum is not None]
    tightest = max(over_all, key=lambda count: count.minimum)
    joined = Count(None, tightest.minimum, min(most, default=None), tightest.site)
    return (joined, *[count for count in counts if count.names is not None])
