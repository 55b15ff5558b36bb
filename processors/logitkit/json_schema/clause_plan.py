"""How objects are written where several sets of objects share one graph: branches that would multiply, or stay possible together.

The names of all sets come in one order. So after the last name of a branch it is known whether the branch holds, and a state
needs to know only what is left of the conditions. By hand, for `oneOf` of the open objects in which `"a"` is an integer, and
those in which `"b"` is one:

    place  what is left            "a": 1          "a": null       no "a"
    "a"    exactly one of 0, 1     not 1           1               not 1
    place  what is left            "b": 1          "b": null       no "b"
    "b"    not 1                   never           anything        never
    "b"    1                       anything        never           anything

With a graph for each combination of branches, each branch more would double the states.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from logitkit.budget import spend
from logitkit.errors import PatternTooLarge, UnsupportedSchema
from logitkit.json_schema.clauses import FALSE, TRUE, Counted, Formula, assigned, counted, things_of
from logitkit.json_schema.conjunction import ANYTHING, NOTHING, Conjunction, both, negations
from logitkit.json_schema.emptiness import few_texts, is_empty
from logitkit.json_schema.layout import Layout, is_unicode, literal, ordered, quoted
from logitkit.json_schema.objects import Objects, Piece
from logitkit.json_schema.plan import Names, Plan
from logitkit.json_schema.string_set import StringSet
from logitkit.patterns.syntax import Empty

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

__all__ = ["clause_plan", "with_shared_order"]

# A set of at most this many names is listed name by name, as in `object_plan`.
MOST_LISTED = 256
# The most cases that the conditions on one value may tell apart.
MOST_OUTCOMES = 256
# Up to this many open branches that may hold together, each keeps its own order of members.
MOST_OPEN = 7
# A name with at most this many values tells branches apart.
FEW_VALUES = 64
# The cost of a state, and for each thing in it, and that of looking for one value at the conditions of one thing.
STATE_STEPS, THING_STEPS = 20, 16

# The conditions on the values of some names, by thing; those that anything satisfies are left out.
Conditions = dict[int, Conjunction]


def too_many() -> UnsupportedSchema:
    """Return the error for what is not written in this way either; the pointer is the caller's to say."""
    return UnsupportedSchema("the schema has too many combinations of branches; simplify it")


def with_shared_order(union: list[Objects], reader: Reader, layout: Layout) -> list[Objects]:
    """Return the sets of a union that one graph writes: those with clauses, and open ones that would double its states each."""
    found = [objects for objects in union if objects.clauses]
    open_ones: dict[frozenset[str], list[Objects]] = {}
    for objects in union if len(union) > MOST_OPEN and not layout.any_order else ():
        if not objects.clauses and objects.is_simple and all(piece.value == ANYTHING for piece in objects.pieces):
            open_ones.setdefault(frozenset(objects.required), []).append(objects)
    for required, several in open_ones.items():
        if len({frozenset(objects.properties) for objects in several}) <= MOST_OPEN:
            continue
        if all(_together(several, name, reader) > MOST_OPEN for name in required):
            found += several
    return found


def _together(several: list[Objects], name: str, reader: Reader) -> int:
    """Return how many sets a value of a name leaves, at most: few if each has a constant of its own there."""
    values = [few_texts(reader, objects.value_of(name), FEW_VALUES) for objects in several]
    count = Counter([text for texts in values for text in texts or ()])
    return max(count.values(), default=0) + sum(texts is None for texts in values)


class _State(NamedTuple):
    """Where in an object one is.

    Args:
        after_member: Whether a member was written last, so that a comma comes, or the end; else one has to come.
        place: The first listed member that may still come.
        left: The conditions that must still hold.
    """

    after_member: bool
    place: int
    left: Formula


def clause_plan(union: list[Objects], reader: Reader, layout: Layout) -> Plan:
    """Return the graph of what follows the opening brace, with the closing one, of the objects that any of some sets holds.

    Args:
        union: The sets, which may have clauses.
        reader: Knows the schemas.
        layout: The white space around members.

    Raises:
        UnsupportedSchema: There are too many states, or members have conditions that are not followed here.
    """
    try:
        return _Writer(union, reader, layout).plan()
    except (UnsupportedSchema, PatternTooLarge) as error:
        # The clause that says most is to blame.
        clauses = [clause for objects in union for clause in objects.clauses if clause.site is not None]
        site = max(clauses, key=lambda clause: len(clause.parts)).site if clauses else None
        if site is None or (isinstance(error, UnsupportedSchema) and error.pointer is not None):
            raise
        raise site.refuse(str(error).replace("pattern", "schema")) from None


class _Writer:
    """Builds the graph from the start on. Its things are the sets of objects without their clauses."""

    def __init__(self, union: list[Objects], reader: Reader, layout: Layout) -> None:
        if layout.any_order:
            raise too_many()
        self.reader, self.layout = reader, layout
        self.sets: list[Objects] = []
        self._numbers: dict[int, Formula] = {}
        self._plan = Plan()
        self.whole = counted(1, None, [self._formula(objects) for objects in union])
        # Where it matters that a set does not hold, it has to be known.
        self.exact = _counted_to_a_most(self.whole)
        is_known = all(self.sets[thing].tells_by_member for thing in self.exact)
        if not is_known or not all(objects.is_simple for objects in self.sets):
            raise too_many()
        self.others = self._others()
        self.names = [name for name in self._listed([*union]) if is_unicode(name)]
        spend(THING_STEPS * len(self.names) * len(self.sets))
        self.conditions: list[Conditions] = [self._conditions(name) for name in self.names]
        # For each place, the sets that require its name; and for each set, the place after the last name that it requires.
        self.needing: list[list[int]] = [[] for _ in self.names]
        self.required_to = [0] * len(self.sets)
        never = self._note_required()
        self.settled = self._settled()
        self.whole = assigned(self.whole, dict.fromkeys(never, False))

    def _note_required(self) -> set[int]:
        """Note where names are required, and return the sets that require a name that cannot be written."""
        number = {name: place for place, name in enumerate(self.names)}
        never: set[int] = set()
        for thing, objects in enumerate(self.sets):
            for name in objects.required:
                if name in number:
                    self.needing[number[name]].append(thing)
                    self.required_to[thing] = max(self.required_to[thing], number[name] + 1)
                else:
                    never.add(thing)
        return never

    def _settled(self) -> list[list[int]]:
        """Return for each place the sets that say nothing from there on: one that has not failed holds."""
        says_to = [*self.required_to]
        beyond = [(len(self.names), conditions) for _, conditions in self.others]
        for place, conditions in (*enumerate(self.conditions), *beyond):
            for thing in conditions:
                says_to[thing] = max(says_to[thing], place + 1)
        settled: list[list[int]] = [[] for _ in range(len(self.names) + 2)]
        for thing, place in enumerate(says_to):
            settled[place].append(thing)
        return settled

    def _formula(self, objects: Objects) -> Formula:
        """Return the conditions of a set: itself without its clauses, and these."""
        found = self._numbers.get(id(objects))
        if found is None:
            own: Formula = FALSE if objects.is_empty else TRUE
            if own == TRUE and not objects.without_clauses.is_everything:
                own = len(self.sets)
                self.sets.append(objects)
            clauses = [
                counted(c.least, c.most, [counted(1, None, map(self._formula, part)) for part in c.parts])
                for c in objects.clauses
            ]
            found = self._numbers[id(objects)] = counted(1 + len(clauses), None, [own, *clauses])
        return found

    def _listed(self, union: list[Objects]) -> list[str]:
        """Return all names that are listed, in their order, and then those of sets of few names."""
        every = [*union, *self.sets]
        kinds = ("order", "required", "properties", "possible_names")
        listed = dict.fromkeys(name for kind in kinds for objects in every for name in getattr(objects, kind))
        few = [names.strings.values(MOST_LISTED) for names, _ in self.others]
        found = [*listed, *sorted({name for names in few for name in names or ()} - listed.keys())]
        found = ordered(found, self.layout.member_order)
        self.others = [
            (Names(names.strings, tuple([n for n in found if names.strings.contains(n)])), conditions)
            for (names, conditions), values in zip(self.others, few, strict=True)
            if values is None
        ]
        return found

    def _others(self) -> list[tuple[Names, Conditions]]:
        """Cut all names so that those of one set have the same conditions."""
        found: list[tuple[StringSet, Conditions]] = [(self.reader.everything.strings, {})]
        cuts: dict[tuple[Piece, ...], list[int]] = {}
        for thing, objects in enumerate(self.sets):
            if objects.pieces:
                cuts.setdefault(objects.pieces, []).append(thing)
        for pieces, things in cuts.items():
            found = [
                (names, conditions if piece.value == ANYTHING else {**conditions, **dict.fromkeys(things, piece.value)})
                for known, conditions in found
                for piece in pieces
                for names in [known if piece.names.is_everything else known & piece.names]
                if not names.is_empty
            ]
            spend(STATE_STEPS * len(found))
            if len(found) > MOST_OUTCOMES:
                raise too_many()
        return [(Names(names), conditions) for names, conditions in found]

    def _conditions(self, name: str) -> Conditions:
        values = [objects.value_of(name) for objects in self.sets]
        return {thing: value for thing, value in enumerate(values) if value != ANYTHING}

    def plan(self) -> Plan:
        plan = self._plan
        start, plan.end = plan.state("start"), plan.state("end")
        first = assigned(self.whole, dict.fromkeys(self.settled[0], True))
        if self._may_end(0, first):
            plan.move(start, literal("}"), None, plan.end)
        if first != FALSE and (self.names or self.others):
            plan.move(start, self.layout.opened, None, plan.reach(_State(False, 0, first)))
        while plan.todo:
            state: _State = plan.todo.pop()
            source = plan.state(state)
            spend(STATE_STEPS + THING_STEPS * sum(1 for _ in things_of(state.left)))
            if not state.after_member:
                self._next(source, state)
                continue
            if self._may_end(state.place, state.left):
                plan.move(source, self.layout.closing["}"], None, plan.end)
            if state.place < len(self.names) or self.others:
                plan.move(source, self.layout.comma, None, plan.reach(state._replace(after_member=False)))
        return plan

    def _next(self, source: int, state: _State) -> None:
        """Write one more member: this one, a later one, or an unlisted one."""
        place, left = state.place, state.left
        if place == len(self.names):
            for names, conditions in self.others:
                self._member(source, names, conditions, place, place, left)
            return
        self._member(source, quoted(self.names[place]), self.conditions[place], place, place + 1, left)
        after = self._after(left, dict.fromkeys(self.needing[place], False), place + 1)
        if after != FALSE and (place + 1 < len(self.names) or self.others):
            self._plan.move(source, Empty(), None, self._plan.reach(_State(False, place + 1, after)))

    def _member(
        self, source: int, names: Names | str, conditions: Conditions, place: int, after: int, left: Formula
    ) -> None:
        """Write a member, after which those from a place on may come."""
        for value, truth in self._outcomes(left, conditions):
            found = self._after(left, truth, after) if after > place else assigned(left, truth)
            if found != FALSE:
                target = self._plan.reach(_State(True, after, found))
                self._plan.move(source, self.layout.colon, value, target, names)

    def _after(self, left: Formula, truth: dict[int, bool], place: int) -> Formula:
        """Return what is left before a place, given what has been found out at the one before it."""
        return assigned(left, {**dict.fromkeys(self.settled[place], True), **truth})

    def _outcomes(self, left: Formula, conditions: Conditions) -> list[tuple[Conjunction, dict[int, bool]]]:
        """Return what a value may satisfy, each with the things that then do not hold."""
        by_value: dict[Conjunction, list[int]] = {}
        for thing in dict.fromkeys(things_of(left)) if conditions else ():
            if thing in conditions:
                by_value.setdefault(conditions[thing], []).append(thing)
        found: list[tuple[Conjunction, dict[int, bool]]] = [(ANYTHING, {})]
        for value, things in by_value.items():
            wrong = [ANYTHING] if self.exact.isdisjoint(things) else negations(value)
            cases = [(value, {}), *[(some, dict.fromkeys(things, False)) for some in wrong]]
            found = [
                (inside, {**truth, **more})
                for known, truth in found
                for some, more in cases
                for inside in [both(known, some)]
                if inside == known or not (inside == NOTHING or is_empty(self.reader, inside))
            ]
            spend(STATE_STEPS * len(found))
            if len(found) > MOST_OUTCOMES:
                raise too_many()
        return found

    def _may_end(self, place: int, left: Formula) -> bool:
        truth = {thing: self.required_to[thing] <= place for thing in things_of(left)}
        return assigned(left, truth) == TRUE


def _counted_to_a_most(formula: Formula) -> set[int]:
    """Return the things in a formula of which it matters that they do not hold."""
    if not isinstance(formula, Counted):
        return set()
    if formula.most is not None:
        return {*things_of(formula)}
    return set[int]().union(*map(_counted_to_a_most, formula.parts))
