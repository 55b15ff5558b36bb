"""The parts of a schema's language: the objects and the arrays of each combination of schemas that a value must satisfy."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from logitkit.budget import outside_budget, spend
from logitkit.json_schema.array_plan import array_plan, count_keywords
from logitkit.json_schema.blocks import block_plan
from logitkit.json_schema.conjunction import ANYTHING, Conjunction
from logitkit.json_schema.constants import constants_plan
from logitkit.json_schema.layout import Layout, Whitespace
from logitkit.json_schema.object_plan import object_plan
from logitkit.json_schema.plan import MOVE_STEPS, Block, Plan
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.references import References
from logitkit.limits import Limits


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


def parts_of(root: Conjunction, reader: Reader, layout: Layout, apart: bool = False) -> dict[Key, Part]:
    """Return all parts that a value is made of, the root's first.

    Args:
        root: The conjunction that the value satisfies.
        reader: Knows its schemas.
        layout: The white space around members and items.
        apart: Whether every object and array is to be a part of its own, those inside of constants too.

    Raises:
        UnsupportedSchema: Some part has no exact form.
    """
    found: dict[Key, Part] = {}
    todo: list[Conjunction | Block] = [root]
    seen = {*todo}
    as_texts = layout.whitespace == "compact" and not layout.any_order and not apart
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
    if value == ANYTHING and not reader.left_out.lax:
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
    with reader.blaming_one_of(value, "maxProperties", "minProperties", "patternProperties", "properties"):
        whole = [some.whole for some in values.objects if as_texts and some.whole is not None]
        objects = [constants_plan(whole, reader.limits)] if whole else []
        objects += [
            object_plan(some, reader.everything.strings, layout)
            for some in values.objects
            if not as_texts or some.whole is None
        ]
    with reader.blaming_one_of(value, *count_keywords(values.arrays), "contains", "prefixItems", "items"):
        given = [some.whole for some in values.arrays if as_texts and some.whole is not None]
        arrays = [constants_plan(given, reader.limits)] if given else []
        arrays += [array_plan(some, reader, layout) for some in values.arrays if not as_texts or some.whole is None]
    return {
        Key(value, "{"): [plan for plan in objects if plan is not None],
        Key(value, "["): [plan for plan in arrays if plan is not None],
    }
