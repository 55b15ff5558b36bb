"""`uniqueItems` where items are of few values, objects and arrays among them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import permutations, product
from typing import Any, NamedTuple

import pytest

import logitkit as lk
from logitkit import languages
from logitkit.errors import ConfigurationError, UnsupportedSchema
from tests.json_schema.acceptance import BYTES
from tests.json_schema.judge import judge

ONE, TWO, LIST = {"a": 1, "b": [True, None]}, {"a": 2}, [1, {"x": "y"}]
CLOSED: dict[str, Any] = {"type": "object", "additionalProperties": False}


class Case(NamedTuple):
    """A schema of items, the values of which arrays are made, and other keywords beside `uniqueItems`."""

    items: dict[str, Any]
    values: list[Any]
    more: dict[str, Any] | None = None

    @property
    def schema(self) -> dict[str, Any]:
        """The schema of arrays."""
        return {"type": "array", "items": self.items, "uniqueItems": True, **(self.more or {})}


CASES = {
    "two objects": Case({"enum": [ONE, TWO]}, [ONE, TWO, {}, 1, {"a": 3}]),
    "arrays": Case({"enum": [[], [1], LIST]}, [[], [1], LIST, [2], [1, 1]]),
    "all types": Case({"enum": [ONE, LIST, "s", 1, None, {}]}, [ONE, LIST, "s", 1, None, {}, "t"]),
    "constants of branches": Case(
        {"anyOf": [{"const": TWO}, {"const": LIST}, {"type": "boolean"}]}, [TWO, LIST, True, 1]
    ),
    "some of an enum": Case({"enum": [ONE, TWO, []], "minProperties": 2}, [ONE, TWO, []]),
    "few members": Case(
        {**CLOSED, "properties": {"k": {"enum": ["a", "b"]}, "l": {"type": "null"}}, "required": ["k"]},
        [{"k": "a"}, {"k": "b"}, {"k": "a", "l": None}, {"k": "c"}, {}, {"l": None}],
    ),
    "one of two members": Case(
        {**CLOSED, "properties": {"a": {"const": 1}, "b": {"const": 2}}, "minProperties": 1},
        [{}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}],
    ),
    "members that need others": Case(
        {**CLOSED, "properties": {"a": {"const": 1}, "b": {"const": 2}}, "dependentRequired": {"a": ["b"]}},
        [{}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}],
    ),
    "named by an enum": Case(
        {"type": "object", "propertyNames": {"enum": ["p"]}, "additionalProperties": {"type": "boolean"}},
        [{}, {"p": True}, {"p": False}, {"q": True}, {"p": 1}],
    ),
    "short arrays": Case(
        {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 2, "minItems": 1},
        [[], ["x"], ["y"], ["x", "y"], ["x", "x"], ["z"]],
    ),
    "unique inside": Case(
        {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 2, "uniqueItems": True},
        [[], ["x"], ["y"], ["x", "y"], ["x", "x"]],
    ),
    "with bounds": Case({"enum": [ONE, TWO, LIST]}, [ONE, TWO, LIST], {"minItems": 2, "maxItems": 2}),
    "after others": Case({"enum": [ONE, TWO]}, [ONE, TWO, LIST], {"prefixItems": [{"enum": [TWO, LIST]}]}),
}


# Each with the values of which arrays are made.
UNIONS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "two equal ones": ({"items": {"enum": [ONE, TWO, LIST]}, "not": {"uniqueItems": True}}, [ONE, TWO, LIST, 1]),
    "two equal ones among the first": (
        {"prefixItems": [{"enum": [1, 2]}, {"enum": [2, 3]}], "items": False, "not": {"uniqueItems": True}},
        [1, 2, 3],
    ),
    "none are ever equal": ({"prefixItems": [{"const": 1}], "items": False, "not": {"uniqueItems": True}}, [1, 2]),
    "two equal ones or one of three": (
        {"items": {"type": "boolean"}, "oneOf": [{"uniqueItems": True}, {"minItems": 3}]},
        [True, False],
    ),
    "included": (
        {"anyOf": [{"items": {"type": "string"}, "uniqueItems": True, "minItems": 1}, {"items": {"type": "string"}}]},
        ["a", "b", 1],
    ),
    "included in any": (
        {
            "anyOf": [
                {"uniqueItems": True, "maxItems": 2},
                {"maxItems": 3},
                {"maxItems": 3, "not": {"uniqueItems": True}},
            ]
        },
        ["a", 1],
    ),
    "not included": (
        {"anyOf": [{"items": {"enum": ["a", "b"]}, "uniqueItems": True}, {"items": {"type": "string"}, "maxItems": 1}]},
        ["a", "b", "c"],
    ),
}


def _spellings(value: Any) -> Iterator[str]:
    """Return the texts of a value with the members of its objects in each order."""
    if isinstance(value, dict):
        for names in permutations(value):
            for inside in product(*(_spellings(value[name]) for name in names)):
                yield "{" + ",".join(f"{json.dumps(n)}:{text}" for n, text in zip(names, inside, strict=True)) + "}"
    elif isinstance(value, list):
        for texts in product(*map(_spellings, value)):
            yield "[" + ",".join(texts) + "]"
    else:
        yield json.dumps(value)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_each_valid_array_has_one_spelling(case: Case) -> None:
    """The library `jsonschema` says which of all arrays of up to three items are valid."""
    schema = case.schema
    dfa, validator = lk.JsonSchema(schema, BYTES).nested_dfa(), judge(schema)
    for count in range(4):
        for array in map(list, product(case.values, repeat=count)):
            accepted = [text for text in _spellings(array) if dfa.accepts(text.encode())]
            assert len(accepted) == validator.is_valid(array), array


@pytest.mark.parametrize("name", UNIONS)
def test_unions_and_negations_hold_the_same_arrays(name: str) -> None:
    """No row needs to remember these: sets that others include are left out, and those of few values have states."""
    more, values = UNIONS[name]
    schema = {"type": "array", **more}
    validator = judge(schema)
    arrays = [array for count in range(5) for array in map(list, product(values, repeat=count))]
    if not any(map(validator.is_valid, arrays)):
        with pytest.raises(ConfigurationError, match="no value satisfies the schema"):
            lk.JsonSchema(schema, BYTES)
        return
    dfa = lk.JsonSchema(schema, BYTES).nested_dfa()
    for array in arrays:
        accepted = [text for text in _spellings(array) if dfa.accepts(text.encode())]
        assert len(accepted) == validator.is_valid(array), array


@pytest.mark.parametrize("items", [{"type": "string"}, {"type": "object"}])
def test_two_equal_ones_of_many_values_are_refused(items: dict[str, Any]) -> None:
    schema = {"type": "array", "items": items, "not": {"uniqueItems": True}}
    with pytest.raises(UnsupportedSchema, match="asks for two equal items, and an automaton cannot tell") as error:
        lk.JsonSchema(schema, BYTES)
    assert (error.value.pointer, error.value.keyword) == ("#/not", "uniqueItems")
    with pytest.warns(UserWarning, match="'uniqueItems' at #/not"):
        lax = lk.JsonSchema(schema, BYTES, lax=True)
    # Without the condition, there are only more arrays.
    assert lax.nested_dfa().accepts(b'["a","b"]' if items["type"] == "string" else b'[{"a":1},{}]')


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("whitespace", ["spaced", "bounded"])
def test_white_space_changes_nothing(case: Case, whitespace: Any) -> None:
    schema = case.schema
    dfa, validator = lk.JsonSchema(schema, BYTES, whitespace=whitespace).nested_dfa(), judge(schema)
    for array in map(list, product(case.values, repeat=2)):
        for text in (json.dumps(array), json.dumps(array, indent=1 if whitespace == "bounded" else None)):
            assert dfa.accepts(text.encode()) == validator.is_valid(array), array


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_members_in_any_order_make_no_other_values(case: Case) -> None:
    schema = case.schema
    dfa = languages.json_schema(schema, any_order=True).constraint(BYTES).nested_dfa()
    validator = judge(schema)
    for array in map(list, product(case.values, repeat=2)):
        assert all(dfa.accepts(text.encode()) == validator.is_valid(array) for text in _spellings(array)), array


def test_equal_values_are_one() -> None:
    """Of equal objects in several orders, the first is written; `jsonschema` takes `[0]` and `[false]` for equal at times."""
    items = {"enum": [{"a": 1, "b": 2}, {"b": 2, "a": 1}, [0], [-0.0], [False], [0.0]]}
    dfa = lk.JsonSchema({"type": "array", "items": items, "uniqueItems": True}, BYTES).nested_dfa()
    for text in ('[{"a":1,"b":2},[0],[false]]', "[[false],[0]]"):
        assert dfa.accepts(text.encode())
    for text in ('[{"a":1,"b":2},{"b":2,"a":1}]', '[{"b":2,"a":1}]', "[[0],[false],[0]]", "[[0],[0]]"):
        assert not dfa.accepts(text.encode())


@pytest.mark.parametrize(
    "items",
    [
        {"enum": [{"v": number} for number in range(13)]},
        {"enum": [{"value": f"number {number}"} for number in range(12)]},
        {"type": "object"},
        {"type": "array", "items": {"type": "boolean"}},
        {"type": "array", "items": {"type": "boolean"}, "maxItems": 5},
        {**CLOSED, "properties": {"next": {"$ref": "#/items"}}},
        {**CLOSED, "patternProperties": {"^a": {"type": "null"}}},
    ],
)
def test_many_values_are_remembered_by_rows(items: dict[str, Any]) -> None:
    schema = {"type": "array", "items": items, "uniqueItems": True}
    constraint = lk.JsonSchema(schema, BYTES)
    assert constraint.automaton.remembers is not None
    # Without rows, as in a part of another constraint, nothing remembers them.
    with pytest.raises(
        UnsupportedSchema, match=r"in a part of another constraint, .* unless they are of a few values"
    ) as error:
        constraint.nested_dfa()
    assert error.value.keyword == "uniqueItems"


@pytest.mark.parametrize("count", [10, 11, 12])
def test_rows_remember_what_would_take_many_states(count: int) -> None:
    """In a part of another constraint, where no row remembers items, there are states for all sets of up to 12 values."""
    schema = {"type": "array", "items": {"enum": [*range(count)]}, "uniqueItems": True, "maxItems": 3}
    constraint = lk.JsonSchema(schema, BYTES)
    assert (constraint.automaton.remembers is not None) == (count > 10)
    dfa = constraint.nested_dfa()
    assert dfa.accepts(b"[1,0,2]")
    assert not dfa.accepts(b"[1,0,1]")


def test_few_of_many_items_are_possible() -> None:
    """With few items, there are few sets of values that have been used."""
    items = {"enum": [{"value": f"number {number}"} for number in range(12)]}
    schema = {"type": "array", "items": items, "uniqueItems": True, "maxItems": 2}
    dfa = lk.JsonSchema(schema, BYTES).nested_dfa()
    assert dfa.accepts(b'[{"value":"number 3"},{"value":"number 11"}]')
    assert not dfa.accepts(b'[{"value":"number 3"},{"value":"number 3"}]')
