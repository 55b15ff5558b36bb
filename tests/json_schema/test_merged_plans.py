"""Branches of objects with equal members: their plans are merged, and the texts stay the same."""

from __future__ import annotations

from itertools import product
from typing import Any
from unittest import mock

import pytest

import logitkit as lk
from logitkit.json_schema import merged_plans
from logitkit.json_schema.layout import literal
from logitkit.json_schema.plan import Move
from logitkit.limits import DEFAULT_LIMITS
from logitkit.patterns.syntax import Empty
from tests.json_schema.acceptance import BYTES, Accepted
from tests.json_schema.judge import judge
from tests.json_schema.orders import orders

NAMES = "abcdef"
COLON = literal(":")
CLOSED = {
    "type": "object",
    "properties": {name: {"enum": [1, [2]]} for name in NAMES},
    "additionalProperties": False,
}
# Members that exclude each other, as credentials do.
SCHEMAS: dict[str, dict[str, Any]] = {
    "one of each pair": {
        **CLOSED,
        "allOf": [{"oneOf": [{"required": [a]}, {"required": [b]}]} for a, b in ("ab", "cd")],
    },
    "not all": {**CLOSED, "not": {"required": ["a", "b", "c"]}},
    "any of three": {**CLOSED, "anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}, {"maxProperties": 1}]},
    "open": {**CLOSED, "additionalProperties": {"const": 3}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "values that differ": {
        **CLOSED,
        "anyOf": [{"properties": {"a": {"const": 1}}, "required": ["b"]}, {"properties": {"b": {"const": 1}}}],
    },
}


def _values(schema: dict[str, Any]) -> list[dict[str, Any]]:
    more = [{}] if schema["additionalProperties"] is False else [{}, {"x": 3}, {"x": 1}]
    given = product([None, 1, [2]], repeat=3)
    first = [{n: v for n, v in zip("abc", values, strict=True) if v is not None} for values in given]
    return [{**some, **dict.fromkeys(last, 1), **other} for some in first for last in ("", "d", "ef") for other in more]


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("fewest", [0, 10**9])
def test_texts_are_the_same(name: str, fewest: int) -> None:
    """The library `jsonschema` says which values are valid. `fewest` lets all plans be merged, or none."""
    schema = SCHEMAS[name]
    with mock.patch.object(merged_plans, "FEWEST_MOVES", fewest):
        accepted = Accepted(lk.JsonSchema(schema, BYTES))
    validator = judge(schema)
    for value in _values(schema):
        texts = [text for text in orders(value, "", accepted) if accepted.accepts(text.encode())]
        assert bool(texts) == validator.is_valid(value), value


def test_branches_have_equal_members_once() -> None:
    """By hand: two branches that differ in their first member."""

    def member(name: str, target: int) -> Move:
        return Move(COLON, (), target, name)

    moves = [
        [Move(Empty(), None, 1), Move(Empty(), None, 4)],
        [member("a", 2)],
        [member("c", 3)],
        [],
        [member("b", 5)],
        [member("c", 6)],
        [],
    ]
    with mock.patch.object(merged_plans, "FEWEST_MOVES", 0):
        found, ends = merged_plans.merged((moves, [state in (3, 6) for state in range(7)]), DEFAULT_LIMITS)
    assert [[(move.names, move.value, move.target) for move in row] for row in found] == [
        [("a", (), 1), ("b", (), 1)],
        [("c", (), 2)],
        [],
    ]
    assert ends == [False, False, True]
    # A graph that is minimal stays as it is.
    with mock.patch.object(merged_plans, "FEWEST_MOVES", 0):
        assert merged_plans.merged((found, ends), DEFAULT_LIMITS) == (found, ends)


def test_a_graph_that_would_grow_stays_as_it_is() -> None:
    """The last member but four is `"a"`: the minimal deterministic graph has a state for each set of places."""
    ways = [Move(COLON, (), 0, "a"), Move(COLON, (), 0, "b")]
    moves = [[*ways, Move(COLON, (), 1, "a")]]
    moves += [[Move(COLON, (), state + 1, name) for name in "ab"] for state in range(1, 5)]
    rows = [*moves, []], [False] * 5 + [True]
    with mock.patch.object(merged_plans, "FEWEST_MOVES", 0):
        assert merged_plans.merged(rows, DEFAULT_LIMITS) is rows
