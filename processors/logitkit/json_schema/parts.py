"""The parts of a schema's language: its objects and arrays, without what no text takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from logitkit.budget import outside_budget, spend
from logitkit.compiler.characters.components import reached
from logitkit.json_schema.array_plan import count_keywords
from logitkit.json_schema.array_union import array_plans
from logitkit.json_schema.blocks import block_plan
from logitkit.json_schema.clause_plan import clause_plan, with_shared_order
from logitkit.json_schema.conjunction import ANYTHING, Conjunction
from logitkit.json_schema.constants import constants_plan
from logitkit.json_schema.layout import Layout, Whitespace
from logitkit.json_schema.merged_plans import merged
from logitkit.json_schema.object_plan import object_plan
from logitkit.json_schema.plan import MOVE_STEPS, Block, Move, Names, Plan
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.references import References
from logitkit.json_schema.remembered_items import label_of_names
from logitkit.limits import Limits
from logitkit.patterns.syntax import Empty, Node

__all__ = ["Trimmed"]


class Trimmed:
    """The parts without moves that no text takes.

    Args:
        live: The moves of each part that has a value: of one graph for all its plans, with its accepting states.
    """

    def __init__(self, parts: dict[Key, Part], reader: Reader) -> None:
        self.reader = reader
        self.live: dict[Key, tuple[list[list[Move]], list[bool]]] = {}
        # The parts that have a value, by what they are of and what they begin with.
        self._alive: dict[Conjunction | Block, dict[str, Key]] = {}
        self._valued: set[Conjunction | Block] = set()
        left = [key for key in reversed(parts) if parts[key].plans]
        grown = True
        while grown:
            grown = False
            for key in left:
                if not self._is_alive(key) and any(self._ends(plan) for plan in parts[key].plans):
                    self._alive.setdefault(key.value, {})[key.opening] = key
                    grown = True
        for key, part in parts.items():
            if self._is_alive(key):
                self.live[key] = self._joined(part.plans)
                moves = [move for row in self.live[key][0] for move in row]
                part.inside = list(dict.fromkeys(move.value for move in moves if move.value is not None))

    def has_value(self, value: Conjunction | Block) -> bool:
        """Whether some value satisfies a conjunction, or a block has a text."""
        if value in self._valued:
            return True
        if isinstance(value, Block):
            return bool(self.keys_of([value]))
        values = self.reader.values(value)
        scalars = values.null or values.booleans or not values.numbers.is_empty
        found = bool(scalars) or not values.strings.is_empty or bool(self.keys_of([value]))
        if found:
            # Once a value is found, it stays: parts only become alive.
            self._valued.add(value)
        return found

    def keys_of(self, values: Iterable[Conjunction | Block]) -> list[Key]:
        """Return the parts of some conjunctions that have a value, and those of blocks."""
        rows = [row for value in values if (row := self._alive.get(value))]
        return [row[opening] for row in rows for opening in "{[," if opening in row]

    def uses(self, root: Conjunction) -> Counter[Key]:
        """Return in how many places each part is written."""
        values: Counter[Conjunction | Block] = Counter([root])
        for rows, _ in self.live.values():
            values.update([move.value for row in rows for move in row if move.value is not None])
        uses: Counter[Key] = Counter()
        for value, count in values.items():
            for key in self.keys_of([value]):
                uses[key] += count
        return uses

    def literals(self, value: Conjunction) -> list[str]:
        """Return those of `null`, `true` and `false` that satisfy a conjunction."""
        values = self.reader.values(value)
        named = (("null", values.null), ("true", True in values.booleans), ("false", False in values.booleans))
        return [text for text, satisfies in named if satisfies]

    def numbers(self, value: Conjunction) -> Node | None:
        """Return the tree of the values that are numbers, or None if there are none."""
        numbers = self.reader.values(value).numbers
        return None if numbers.is_empty else numbers.tree()

    def strings(self, value: Conjunction) -> Names | None:
        """Return the values that are strings, or None if there are none."""
        strings = self.reader.values(value).strings
        return None if strings.is_empty else Names(strings)

    def _is_alive(self, key: Key) -> bool:
        return key.opening in self._alive.get(key.value, ())

    def _passes(self, move: Move) -> bool:
        return move.value is None or self.has_value(move.value)

    def _has_enough_members(self, plan: Plan) -> bool:
        return all(members.are_enough(self.has_value) for members in plan.different)

    def _ends(self, plan: Plan) -> bool:
        def following(state: int) -> list[int]:
            return [move.target for move in plan.moves[state] if self._passes(move)]

        return self._has_enough_members(plan) and plan.end in reached(0, following)

    def _joined(self, plans: list[Plan]) -> tuple[list[list[Move]], list[bool]]:
        """Join the plans to one graph, without what leads to no end."""
        moves: list[list[Move]] = [[]]
        ends = [False]
        for plan in plans:
            rows = [[move for move in row if self._passes(move)] for row in plan.moves]
            kept = _leading_to(rows, plan.end)
            if 0 not in kept or not self._has_enough_members(plan):
                continue
            if len(plans) == 1 and len(kept) == len(plan.moves) and rows == plan.moves:
                # As most often: there is nothing to leave out, and no state to put before the start.
                return plan.moves, [state == plan.end for state in range(len(rows))]
            number = {state: len(moves) + i for i, state in enumerate(sorted(kept))}
            moves[0].append(Move(Empty(), None, number[0]))
            for state in number:
                moves.append([_to(m, number[m.target]) for m in rows[state] if m.target in kept])
                ends.append(state == plan.end)
        if len(moves[0]) == 1:
            # One plan needs no state before its own start.
            return [[_to(m, m.target - 1) for m in row] for row in moves[1:]], ends[1:]
        return merged((moves, ends), self.reader.limits)


def _to(move: Move, target: int) -> Move:
    return Move(move.text, move.value, target, move.names)


def _leading_to(rows: list[list[Move]], end: int) -> set[int]:
    sources: list[list[int]] = [[] for _ in rows]
    for state, row in enumerate(rows):
        for move in row:
            sources[move.target].append(state)
    return {*reached(end, sources.__getitem__)}


class Key(NamedTuple):
    """A part: the objects, or the arrays, that satisfy a conjunction; or a block of items."""

    value: Conjunction | Block
    opening: Literal["{", "[", ","]


@dataclass(eq=False, slots=True)
class Part:
    """How the values of a part are written.

    Args:
        plans: Graphs of what follows the opening bracket; any of them.
        inside: The conjunctions that values inside satisfy, and the blocks, each once.
    """

    plans: list[Plan]
    inside: list[Conjunction | Block] = field(default_factory=list)


def parts_of(root: Conjunction, reader: Reader, layout: Layout) -> dict[Key, Part]:
    """Return all parts that a value is made of, the root's first.

    Args:
        root: The conjunction that the value satisfies.
        reader: Knows its schemas.
        layout: The white space around members and items.

    Raises:
        UnsupportedSchema: Some part has no exact form.
    """
    found: dict[Key, Part] = {}
    todo: list[Conjunction | Block] = [root]
    seen = {*todo}
    as_texts = layout.as_texts
    while todo:
        value = todo.pop()
        for key, some in _plans_of(value, reader, layout, as_texts).items():
            part = found[key] = Part(some)
            moves = [move for plan in part.plans for row in plan.moves for move in row]
            part.inside = list(dict.fromkeys(move.value for move in moves if move.value is not None))
            for inside in part.inside:
                if inside not in seen:
                    seen.add(inside)
                    todo.append(inside)
    return found


def _plans_of(value: Conjunction | Block, reader: Reader, layout: Layout, as_texts: bool) -> dict[Key, list[Plan]]:
    """Return the graphs of the objects and arrays that satisfy a conjunction, or that of a block."""
    if isinstance(value, Block):
        return {Key(value, ","): [block_plan(value)]}
    if value == ANYTHING and not reader.left_out.lax and not reader.free_of:
        # As in most schemas, for members that are not listed.
        found = _plans_of_anything(reader.limits, layout.whitespace, layout.any_order, layout.blocks)
        spend(MOVE_STEPS * sum([len(row) for plans in found.values() for plan in plans for row in plan.moves]))
        return found
    return _plans_of_values(value, reader, layout, as_texts)


@lru_cache(maxsize=16)
@outside_budget()
def _plans_of_anything(limits: Limits, whitespace: Whitespace, any_order: bool, blocks: bool) -> dict[Key, list[Plan]]:
    reader = Reader(References.of(True), limits)
    return _plans_of_values(ANYTHING, reader, Layout(whitespace, any_order, blocks), as_texts=False)


def _plans_of_values(value: Conjunction, reader: Reader, layout: Layout, as_texts: bool) -> dict[Key, list[Plan]]:
    """Return the graphs of the objects and arrays that satisfy a conjunction."""
    values = reader.values(value)
    plain = [some for some in values.objects if not as_texts or some.whole is None]
    shared = with_shared_order(plain, reader, layout)
    apart = {*map(id, shared)}
    with reader.blaming_one_of(value, "maxProperties", "minProperties", "patternProperties", "properties"):
        whole = [some.whole for some in values.objects if as_texts and some.whole is not None]
        objects = [constants_plan(whole, reader.limits)] if whole else []
        every, remembers = reader.everything.strings, layout.forgets_names is None
        objects += [object_plan(some, every, layout, remembers) for some in plain if id(some) not in apart]
    with reader.blaming_one_of(value, "oneOf", "anyOf", "allOf", "not", "if", "dependentSchemas", "dependencies"):
        objects += [clause_plan(shared, reader, layout)] if shared else []
    found = [plan for plan in objects if plan is not None]
    if any(plan.remembers for plan in found):
        # No name comes twice, whichever of them the object is of.
        for plan in found:
            plan.begin_with(label_of_names(value, len(found) == 1 and plan.has_same_names, reader))
    with reader.blaming_one_of(value, *count_keywords(values.arrays), "contains", "prefixItems", "items"):
        given = [some.whole for some in values.arrays if as_texts and some.whole is not None]
        arrays = [constants_plan(given, reader.limits)] if given else []
        others = [some for some in values.arrays if not as_texts or some.whole is None]
        arrays += array_plans(others, not given, reader, layout)
    return {
        Key(value, "{"): found,
        Key(value, "["): [plan for plan in arrays if plan is not None],
    }
