"""Values judged by what has been read of a schema, beside `jsonschema`; and their members in an order that masks allow."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.budget import one_budget, spent
from logitkit.constraints.json_schema import SCHEMA_LIMITS
from logitkit.errors import PatternTooLarge, UnsupportedSchema
from logitkit.json_schema.document import load
from logitkit.json_schema.membership import Membership
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.references import References
from tests.json_schema.acceptance import BYTES, Accepted, acceptor
from tests.json_schema.canonical import canonical
from tests.json_schema.generated import instances, schemas
from tests.json_schema.judge import exact, judge
from tests.json_schema.orders import accepted_in_some_order
from tests.json_schema.test_generated import QUICK, ends


def read(schema: Any) -> tuple[Membership, Any]:
    """The judge of a schema, and what its values satisfy."""
    reader = Reader(References.of(load(schema)), SCHEMA_LIMITS)
    return Membership(reader), reader.conjunction(reader.references.resources[""])


@QUICK
@given(st.data())
def test_values_satisfy_what_is_read_exactly_if_they_are_valid(data: st.DataObject) -> None:
    schema = data.draw(schemas)
    membership, root = read(schema)
    validator = judge(schema)
    assume(ends(validator))
    for value in data.draw(st.lists(instances(schema), min_size=6, max_size=12)):
        try:
            found = membership.satisfies(root, value)
        except UnsupportedSchema:
            return
        assert found == validator.is_valid(exact(value)), (schema, value)


@QUICK
@given(st.data())
def test_what_is_put_in_order_is_accepted(data: st.DataObject) -> None:
    schema = data.draw(schemas)
    try:
        accepts = acceptor(schema)
    except UnsupportedSchema:
        return
    membership, root = read(schema)
    for value in data.draw(st.lists(instances(schema), min_size=6, max_size=12)):
        if membership.satisfies(root, value):
            ordered = membership.in_order(root, backwards(value))
            text = canonical(ordered)
            assert ordered == value
            assert accepts(text) or accepted_in_some_order(value, schema, Accepted(lk.JsonSchema(schema, BYTES))), (
                schema,
                text,
            )


def backwards(value: Any) -> Any:
    """The value with the members of its objects in the opposite order."""
    if isinstance(value, dict):
        return {name: backwards(value[name]) for name in [*value][::-1]}
    return [*map(backwards, value)] if isinstance(value, list) else value


@pytest.mark.parametrize(("value", "valid"), [([1, True], True), ([1, 1.0], False), ([{"a": 1}, {"a": 1.0}], False)])
def test_equal_items_are_equal_as_in_json(value: Any, valid: bool) -> None:
    membership, root = read({"uniqueItems": True})
    assert membership.satisfies(root, value) == valid


@pytest.mark.parametrize(
    ("schema", "value", "ordered"),
    [
        ({"properties": {"b": {}, "a": {}}}, {"x": 1, "a": 2, "b": 3}, '{"b": 3, "a": 2, "x": 1}'),
        ({"properties": {"o": {"properties": {"b": {}}}}}, {"o": {"a": 1, "b": 2}}, '{"o": {"b": 2, "a": 1}}'),
        ({"items": {"required": ["b"]}}, [{"a": 1, "b": 2}], '[{"b": 2, "a": 1}]'),
        ({"const": {"b": 1, "a": 2}}, {"a": 2, "b": 1}, '{"b": 1, "a": 2}'),
        ({"properties": {"a": {"type": "null"}}, "required": ["b"]}, {"b": 1, "a": 2}, '{"a": 2, "b": 1}'),
    ],
    ids=["listed first", "inside of an object", "inside of an array", "constant", "of what is not valid"],
)
def test_orders(schema: Any, value: Any, ordered: str) -> None:
    membership, root = read(schema)
    assert json.dumps(membership.in_order(root, value)) == ordered


def test_branches_inside_of_branches_take_no_exponential_time() -> None:
    kinds = [
        {"properties": {"child": {"$ref": "#/$defs/n"}, "kind": {"const": k}}, "required": ["kind"]} for k in "abcd"
    ]
    schema = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "anyOf": kinds}}}
    value: dict[str, Any] = {"kind": "d"}
    for _ in range(60):
        value = {"child": value, "kind": "d"}
    membership, root = read(schema)
    with one_budget(SCHEMA_LIMITS.work):
        assert membership.satisfies(root, value)
        assert membership.in_order(root, backwards(value)) == value
        assert spent() < 100_000


def test_what_is_judged_is_counted() -> None:
    membership, root = read({"items": {"type": "number", "minimum": 0.5}})
    with pytest.raises(PatternTooLarge), one_budget(100_000):
        membership.satisfies(root, [*range(1, 1000)])


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"dependentRequired": {"a": ["b"]}}, [{"a": 1}, {"a": 1, "b": 2}, {"b": 1}]),
        ({"not": {"prefixItems": [{}], "items": {"type": "integer"}}}, [["x", 1], ["x", "y"], ["x"], [1, "y"]]),
        ({"not": {"additionalProperties": {"type": "integer"}}}, [{}, {"a": 1}, {"a": "x"}, {"a": 1, "b": "x"}]),
        ({"contains": {"const": 1}, "maxContains": 1}, [[], [1], [1, 1], [2, 1]]),
        ({"minProperties": 1, "maxProperties": 2}, [{}, {"a": 1}, {"a": 1, "b": 2, "c": 3}]),
    ],
    ids=["needs", "items from the second", "some member fails", "contains", "numbers of members"],
)
def test_each_condition(schema: Any, values: list[Any]) -> None:
    membership, root = read(schema)
    found = [membership.satisfies(root, value) for value in values]
    assert found == [judge(schema).is_valid(value) for value in values]
    assert {*found} == {True, False}


def test_an_error_says_the_same_the_next_time() -> None:
    membership, root = read({"properties": {"a": {"allOf": [{"$ref": "#/nowhere"}, {}]}}})
    for _ in range(2):
        with pytest.raises(UnsupportedSchema, match="points to nothing"):
            membership.satisfies(root, {"a": 1})
