"""The parts of a schema's language: the objects and the arrays of each combination of schemas that a value must satisfy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from logitkit.json_schema.array_plan import array_plan
from logitkit.json_schema.conjunction import Conjunction
from logitkit.json_schema.layout import Layout
from logitkit.json_schema.object_plan import object_plan
from logitkit.json_schema.plan import Plan
from logitkit.json_schema.reader import Reader


class Key(NamedTuple):
    """A part: the objects, or the arrays, that satisfy a conjunction."""

    value: Conjunction
    opening: Literal["{", "["]


@dataclass(eq=False, slots=True)
class Part:
    """How the values of a part are written.

    Args:
        plans: Graphs of what follows the opening bracket; any of them.
        inside: The conjunctions that values inside satisfy, each once.
    """

    plans: list[Plan]
    inside: list[Conjunction] = field(default_factory=list)


def parts_of(root: Conjunction, reader: Reader, layout: Layout) -> dict[Key, Part]:
    """Return all parts that a value is made of, the root's first.

    Raises:
        UnsupportedSchema: Some part has no exact form.
    """
    found: dict[Key, Part] = {}
    todo = [root]
    seen = {root}
    while todo:
        value = todo.pop()
        values = reader.values(value)
        with reader.blaming_one_of(value, "maxProperties", "minProperties", "patternProperties", "properties"):
            objects = [object_plan(some, reader.everything.strings, layout) for some in values.objects]
        with reader.blaming_one_of(value, "maxItems", "minItems", "contains", "prefixItems", "items"):
            arrays = [array_plan(some, reader, layout) for some in values.arrays]
        for key, plans in ((Key(value, "{"), objects), (Key(value, "["), arrays)):
            part = found[key] = Part([plan for plan in plans if plan is not None])
            moves = [move for plan in part.plans for row in plan.moves for move in row]
            part.inside = list(dict.fromkeys(move.value for move in moves if move.value is not None))
            for inside in part.inside:
                if inside not in seen:
                    seen.add(inside)
                    todo.append(inside)
    return found
