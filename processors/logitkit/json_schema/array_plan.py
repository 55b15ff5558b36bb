"""How a set of arrays is written: items one after another, commas between them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from logitkit.budget import spend
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.blocks import LARGE_COUNT, LARGE_COUNT_CLOSING, call_block, run_of
from logitkit.json_schema.conjunction import NOTHING, Conjunction, both, negations
from logitkit.json_schema.emptiness import is_empty
from logitkit.json_schema.layout import Layout, literal
from logitkit.json_schema.number_set import NumberSet
from logitkit.json_schema.plan import MOST_MOVES, ItemRun, Move, Plan, too_many
from logitkit.json_schema.string_set import StringSet
from logitkit.patterns.syntax import Empty, Node

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

# Arrays of so many items, at most, are looked at for items that are never equal.
MOST_COMPARED = 8
# So many different values, at most, may be told apart, and so many sets of them.
MOST_DIFFERENT = 12

# What it costs to write a way in which an item may be counted.
COMBINATION_STEPS = 5

# What an item is written as: a fixed text, or a value that satisfies a conjunction.
Item = tuple[Node, Conjunction | None]


def array_plan(arrays: Arrays, reader: Reader, layout: Layout) -> Plan:
    """Return the graph of what follows the opening bracket, with the closing one.

    Raises:
        UnsupportedSchema: A bound cannot be kept exactly.
    """
    unique = bool(arrays.unique) and not _never_equal(arrays, reader)
    values = _finite(arrays, reader) if unique else None
    if unique and values is None:
        reason = (
            "an automaton cannot tell whether items are different, unless they are of a few values (at most "
            f"{MOST_DIFFERENT}, as of an 'enum') or there is at most one; lower 'maxItems' or give 'items' an 'enum'"
        )
        for error in [site.refuse(reason) for site in arrays.unique]:
            # Without the keyword, there are only more arrays, whatever it is inside of.
            if not reader.left_out.also(error):
                raise error
    return _Writer(arrays, layout, values).plan()


def count_keywords(arrays: tuple[Arrays, ...]) -> tuple[str, str]:
    """Return the keywords that bound the number of items, first the one that may ask for too many."""
    many = any(some.minimum > MOST_MOVES for some in arrays)
    return ("minItems", "maxItems") if many else ("maxItems", "minItems")


def _never_equal(arrays: Arrays, reader: Reader) -> bool:
    """Whether no two items can be equal, as there is one only or each is of a kind of its own."""
    most = arrays.most
    if most is None or most > MOST_COMPARED:
        return most is not None and most < 2
    return all(is_empty(reader, both(arrays.at(i), arrays.at(j))) for i, j in combinations(range(most), 2))


def _finite(arrays: Arrays, reader: Reader) -> list[list[tuple[str, Node]]] | None:
    """Return the values that each item of the prefix, and those behind it, may have, if they are few; each with its text."""
    if arrays.contains:
        return None
    found = []
    for index in range(len(arrays.prefix) + 1):
        values = reader.values(arrays.at(index)) if arrays.at(index) != NOTHING else reader.nothing
        numbers, strings = values.numbers.values(MOST_DIFFERENT), values.strings.values(MOST_DIFFERENT)
        if values.objects or values.arrays or numbers is None or strings is None:
            return None
        constants = [("null", literal("null"))] if values.null else []
        constants += [
            (text, literal(text)) for flag, text in ((False, "false"), (True, "true")) if flag in values.booleans
        ]
        constants += [(f"number {n}", NumberSet.of_values([n], reader.limits).tree()) for n in numbers]
        constants += [(f"string {s}", StringSet.of_values([s], reader.limits).tree()) for s in strings]
        found.append(constants)
    return found if len({name for constants in found for name, _ in constants}) <= MOST_DIFFERENT else None


def _run(arrays: Arrays, layout: Layout) -> ItemRun | None:
    """Return the items behind the prefix as a run, if a large bound counts them, or counts those of one kind."""
    if not arrays.contains:
        bound = max(arrays.minimum, arrays.most or 0) - len(arrays.prefix)
        large = bound > (LARGE_COUNT_CLOSING if layout.within_tokens else LARGE_COUNT)
        return run_of(_moves([arrays.items]), layout, "]") if large and arrays.items != NOTHING else None
    some, *more = arrays.contains
    # Two numbers cannot be counted at a time.
    if more or arrays.most is not None or layout.within_tokens or max(some.minimum, some.maximum or 0) <= LARGE_COUNT:
        return None
    counted = _moves([both(arrays.items, some.value)])
    others = _moves([both(arrays.items, wrong) for wrong in negations(some.value)])
    return run_of(counted, layout, "]", others) if counted else None


def _moves(values: list[Conjunction]) -> tuple[Move, ...]:
    return tuple([Move(Empty(), value, 0) for value in values if value != NOTHING])


class _Writer:
    """Builds the graph from the start on.

    A state is how many items there are, as far as any bound asks; whether one was written last or has to come; how many there are
    of each kind that `contains` asks for; and which values have been used, where no two may be equal.
    """

    def __init__(self, arrays: Arrays, layout: Layout, values: list[list[tuple[str, Node]]] | None) -> None:
        self.arrays = arrays
        self.layout = layout
        self.values = values
        self.most = arrays.most
        begins = [some.begin for some in arrays.contains]
        # From this index on, only the largest number of items matters.
        self.same = max(len(arrays.prefix), arrays.minimum, *begins, 0)
        self.run = _run(arrays, layout) if layout.blocks and values is None else None
        # How many tokens many items need is worked out exactly only where they are written out.
        self.whole_minimum = layout.within_tokens and arrays.minimum > LARGE_COUNT
        if (self.run is None or arrays.contains) and max(arrays.minimum, self.most or 0) > MOST_MOVES:
            raise too_many()
        if self.whole_minimum and arrays.minimum > MOST_MOVES:
            raise UnsupportedSchema(
                f"with 'closing', each of the {arrays.minimum} required items has states of its own, which are too many; lower "
                "'minItems' to a few thousand, or leave out 'closing'"
            )
        self._plan = Plan()
        self._todo: list[tuple[str, int, tuple[int, ...], frozenset[str]]] = []

    def plan(self) -> Plan:
        start = self._plan.state("start")
        none = (0,) * len(self.arrays.contains)
        self._plan.end = self._plan.state("end")
        if self._may_end(0, none):
            self._plan.move(start, literal("]"), None, self._plan.end)
        if self.most is None or self.most:
            self._plan.move(start, self.layout.opened, None, self._state("next", 0, none, frozenset()))
        while self._todo:
            kind, index, counts, used = self._todo.pop()
            source = self._plan.state((kind, index, counts, used))
            if kind == "next":
                after = index + 1 if self.most is not None or index < self.same else index
                for (text, value), grown, now in self._items(index, counts, used):
                    self._plan.move(source, text, value, self._state("behind", after, grown, now))
                continue
            if self._may_end(index, counts):
                self._plan.move(source, self.layout.closing["]"], None, self._plan.end)
            if self._calls_block(source, index, counts):
                continue
            if self.most is None or index < self.most:
                self._plan.move(source, self.layout.comma, None, self._state("next", index, counts, used))
        return self._plan

    def _items(
        self, index: int, counts: tuple[int, ...], used: frozenset[str]
    ) -> Iterator[tuple[Item, tuple[int, ...], frozenset[str]]]:
        """Return what the item of an index may be, with how many of each kind and which values there are then."""
        if self.values is not None:
            for name, text in self.values[min(index, len(self.arrays.prefix))]:
                if name not in used:
                    yield (text, None), counts, used | {name}
            return
        if not self.arrays.contains:
            value = self.arrays.at(index)
            if value != NOTHING:
                yield (Empty(), value), (), used
            return
        found: list[tuple[Conjunction, tuple[int, ...]]] = [(self.arrays.at(index), ())]
        for some, count in zip(self.arrays.contains, counts, strict=True):
            # They may double with each.
            spend(COMBINATION_STEPS * len(found))
            if index < some.begin or (some.maximum is None and count >= some.minimum):
                found = [(value, (*grown, count)) for value, grown in found]
                continue
            one_more = [(both(value, some.value), (*grown, count + 1)) for value, grown in found]
            if some.maximum is None and self.run is None:
                found = [*one_more, *[(value, (*grown, count)) for value, grown in found]]
            else:
                same = [(both(v, wrong), (*grown, count)) for v, grown in found for wrong in negations(some.value)]
                found = [*(one_more if some.maximum is None or count < some.maximum else ()), *same]
        for value, grown in found:
            if value != NOTHING:
                yield (Empty(), value), grown, used

    def _calls_block(self, source: int, index: int, counts: tuple[int, ...]) -> bool:
        """Add the moves of the next items as a block, if that is possible, and return whether it is."""
        arrays = self.arrays
        if self.run is None or index < (self.same if counts else len(arrays.prefix)):
            return False
        if counts:
            # An item of a block that ends the array need not be one of those that count.
            minimum, most, written = arrays.contains[0].minimum, arrays.contains[0].maximum, counts[0]
            may_end = written >= minimum
        else:
            minimum, most, written = arrays.minimum, self.most, index
            may_end = index + 1 >= minimum
        room = most if may_end else minimum
        if room is None or (self.whole_minimum and not may_end):
            return False

        def after(more: int) -> int:
            if counts:
                return self._state("next", index, (counts[0] + more,), frozenset())
            return self._state("next", index + more, (), frozenset())

        return call_block(self._plan, source, self.run, room - written, may_end, after, self._plan.end)

    def _may_end(self, index: int, counts: tuple[int, ...]) -> bool:
        enough = all(count >= some.minimum for count, some in zip(counts, self.arrays.contains, strict=True))
        return index >= self.arrays.minimum and enough

    def _state(self, kind: str, index: int, counts: tuple[int, ...], used: frozenset[str]) -> int:
        name = (kind, index, counts, used)
        if self._plan.is_new(name):
            self._todo.append(name)
        return self._plan.state(name)
