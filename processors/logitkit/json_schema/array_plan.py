"""How a set of arrays is written: items one after another, commas between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from logitkit.budget import spend
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.blocks import LARGE_COUNT, LARGE_COUNT_CLOSING, call_block
from logitkit.json_schema.conjunction import NOTHING, Conjunction, both, negations
from logitkit.json_schema.layout import Layout, literal
from logitkit.json_schema.plan import MOST_MOVES, Item, ItemRun, Move, Plan, too_many
from logitkit.json_schema.simple_negations import negates_simply
from logitkit.patterns.syntax import Empty

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

# The cost of writing a way in which an item may be counted.
COMBINATION_STEPS = 5

# All items of an array, where one of its numbers is counted in blocks.
ITEMS = -1
# The most phases of a run: each pair of them has blocks of its own.
MOST_PHASES = 4

# The values that have been used; None: two equal ones.
Used: TypeAlias = frozenset[str] | None


def array_plan(
    arrays: Arrays,
    reader: Reader,
    layout: Layout,
    values: list[list[tuple[str, Item]]] | None = None,
    label: str | None = None,
) -> Plan:
    """Return the graph of what follows the opening bracket, with the closing one.

    Args:
        arrays: The set.
        reader: Knows the schemas.
        layout: The white space around items.
        values: The values that each item may have, if the states are to know which have been used; see `few_values`.
        label: The word after the bracket that says that a row remembers the items; None: it does not.

    Raises:
        UnsupportedSchema: A bound cannot be kept exactly.
    """
    return _Writer(arrays, reader, layout, values, label).plan()


def count_keywords(arrays: tuple[Arrays, ...]) -> tuple[str, str]:
    """Return the keywords that bound the number of items, first the one that may ask for too many."""
    many = any(some.minimum > MOST_MOVES for some in arrays)
    return ("minItems", "maxItems") if many else ("maxItems", "minItems")


class _Writer:
    """Builds the graph from the start on.

    A state is how many items there are, as far as any bound asks; whether one was written last or has to come; how many there are
    of each kind that `contains` asks for; and which values have been used, where no two may be equal, or two must be: None once
    two are.
    """

    def __init__(
        self,
        arrays: Arrays,
        reader: Reader,
        layout: Layout,
        values: list[list[tuple[str, Item]]] | None,
        label: str | None,
    ) -> None:
        self.arrays = arrays
        self.reader = reader
        self.layout = layout
        self.values = values
        self.label = label
        self.repeats = values is not None and bool(arrays.repeated)
        self.most = arrays.most
        begins = [some.begin for some in arrays.contains]
        # From this index on, what an item may be is the same; from the other one on, only the largest number of items matters.
        self.alike = max(len(arrays.prefix), *begins, 0)
        self.same = max(self.alike, arrays.minimum)
        self.counted = self._counted()
        # How many there are of each kind in the phases of a run.
        self.phases: list[tuple[int, ...]] = []
        self.run = None if self.counted is None else self._run(self.counted)
        if self.run is None:
            self.counted = None
        # How many tokens many items need is worked out exactly only where they are written out.
        self.whole_minimum = layout.within_tokens and arrays.minimum > LARGE_COUNT
        if self.counted != ITEMS and max(arrays.minimum, self.most or 0) > MOST_MOVES:
            raise too_many()
        if self.whole_minimum and arrays.minimum > MOST_MOVES:
            raise UnsupportedSchema(
                f"with 'closing', each of the {arrays.minimum} required items has states of its own, which are too many; lower "
                "'minItems' to a few thousand, or leave out 'closing'"
            )
        self._plan = Plan()

    def _counted(self) -> int | None:
        """Return what is counted in blocks: all items, or those of one `contains`, by its index; None: nothing is."""
        arrays, layout = self.arrays, self.layout
        if self.values is not None or not layout.blocks or arrays.items == NOTHING:
            return None
        large = LARGE_COUNT_CLOSING if layout.within_tokens else LARGE_COUNT
        if max(arrays.minimum, self.most or 0) - len(arrays.prefix) > large:
            return None if layout.within_tokens and arrays.contains else ITEMS
        if self.most is not None or layout.within_tokens:
            return None
        for i, some in enumerate(arrays.contains):
            if max(some.minimum, some.maximum or 0) > large:
                # A maximum needs the negation in any case.
                return i if some.maximum is not None or negates_simply(self.reader, some.value) else None
        return None

    def _run(self, counted: int) -> ItemRun | None:
        """Return the items after the prefix as a run, or None if it has too many phases."""
        arrays, layout = self.arrays, self.layout
        counting: list[tuple[Move, ...]] = []
        others: list[tuple[Move, ...]] = []
        self.phases = [(0,) * len(arrays.contains)]
        for counts in self.phases:
            found: tuple[list[Move], list[Move]] = [], []
            for (text, value), grown, _ in self._items(self.alike, counts, frozenset()):
                phase = self._phase(grown)
                if phase not in self.phases:
                    self.phases.append(phase)
                if len(self.phases) > MOST_PHASES:
                    return None
                counts_too = counted == ITEMS or grown[counted] > 0
                found[0 if counts_too else 1].append(Move(text, value, self.phases.index(phase)))
            counting.append(tuple(found[0]))
            others.append(tuple(found[1]))
        complete = []
        for counts in self.phases:
            asked = [(i, *pair) for i, pair in enumerate(zip(counts, arrays.contains, strict=True))]
            complete.append(all(count >= some.minimum for i, count, some in asked if i != counted))
        return ItemRun(tuple(counting), tuple(others), tuple(complete), layout.gap, layout.closing["]"])

    def _phase(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([0 if i == self.counted else count for i, count in enumerate(counts)])

    def plan(self) -> Plan:
        start = self._plan.state("start")
        none = (0,) * len(self.arrays.contains)
        self._plan.end = self._plan.state("end")
        if self._may_end(0, none, frozenset()):
            self._plan.move(start, literal("]"), None, self._plan.end)
        if self.most is None or self.most:
            self._plan.move(start, self.layout.opened, None, self._plan.reach(("next", 0, none, frozenset())))
        while self._plan.todo:
            kind, index, counts, used = self._plan.todo.pop()
            source = self._plan.state((kind, index, counts, used))
            if kind == "next":
                after = index + 1 if self.most is not None or index < self.same else index
                for (text, value), grown, now in self._items(index, counts, used):
                    self._plan.move(source, text, value, self._plan.reach(("after", after, grown, now)))
                continue
            if self._may_end(index, counts, used):
                self._plan.move(source, self.layout.closing["]"], None, self._plan.end)
            if self._calls_block(source, index, counts):
                continue
            if self.most is None or index < self.most:
                self._plan.move(source, self.layout.comma, None, self._plan.reach(("next", index, counts, used)))
        if self.label is not None:
            self._plan.begin_with(self.label)
        return self._plan

    def _items(self, index: int, counts: tuple[int, ...], used: Used) -> Iterator[tuple[Item, tuple[int, ...], Used]]:
        """Return what the item of an index may be, with how many of each kind and which values there are then."""
        if self.values is not None:
            for name, item in self.values[min(index, len(self.arrays.prefix))]:
                if used is None or name not in used:
                    yield item, counts, None if used is None else used | {name}
                elif self.repeats:
                    yield item, counts, None
            return
        if not self.arrays.contains:
            value = self.arrays.at(index)
            if value != NOTHING:
                yield (Empty(), value), (), used
            return
        for value, grown in self._counted_items(index, counts):
            if value != NOTHING:
                yield (Empty(), value), grown, used

    def _counted_items(self, index: int, counts: tuple[int, ...]) -> list[tuple[Conjunction, tuple[int, ...]]]:
        """Return the conjunctions that the item of an index may satisfy, with the counts after it."""
        found: list[tuple[Conjunction, tuple[int, ...]]] = [(self.arrays.at(index), ())]
        for i, (some, count) in enumerate(zip(self.arrays.contains, counts, strict=True)):
            # They may double with each.
            spend(COMBINATION_STEPS * len(found))
            if index < some.begin or (some.maximum is None and count >= some.minimum):
                found = [(value, (*grown, count)) for value, grown in found]
                continue
            one_more = [(both(value, some.value), (*grown, count + 1)) for value, grown in found]
            if some.maximum is None and i != self.counted:
                found = [*one_more, *[(value, (*grown, count)) for value, grown in found]]
            else:
                same = [(both(v, wrong), (*grown, count)) for v, grown in found for wrong in negations(some.value)]
                found = [*(one_more if some.maximum is None or count < some.maximum else ()), *same]
        return found

    def _calls_block(self, source: int, index: int, counts: tuple[int, ...]) -> bool:
        """Add the moves of the next items as a block, if that is possible, and return whether it is."""
        arrays, counted = self.arrays, self.counted
        if self.run is None or counted is None or self._phase(counts) not in self.phases:
            return False
        if index < (self.alike if counted == ITEMS else self.same):
            return False
        if counted == ITEMS:
            minimum, most, written = arrays.minimum, self.most, index
            may_end = index + 1 >= minimum
        else:
            # An item that ends the array need not be one of those that count.
            minimum, most, written = arrays.contains[counted].minimum, arrays.contains[counted].maximum, counts[counted]
            may_end = written >= minimum
        room = most if may_end else minimum
        if room is None or (self.whole_minimum and not may_end):
            return False

        def after(more: int, phase: int) -> int:
            grown = self.phases[phase]
            if counted == ITEMS:
                return self._plan.reach(("next", index + more, grown, frozenset()))
            grown = (*grown[:counted], counts[counted] + more, *grown[counted + 1 :])
            return self._plan.reach(("next", index, grown, frozenset()))

        phase = self.phases.index(self._phase(counts))
        return call_block(self._plan, source, self.run, room - written, may_end, after, self._plan.end, phase)

    def _may_end(self, index: int, counts: tuple[int, ...], used: Used) -> bool:
        if self.repeats and used is not None:
            return False
        enough = all(count >= some.minimum for count, some in zip(counts, self.arrays.contains, strict=True))
        return index >= self.arrays.minimum and enough
