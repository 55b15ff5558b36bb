"""Values judged by what has been read of a schema, beside `jsonschema`; and their members in an order that masks allow."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from logitkit.constraints.json_schema import SCHEMA_LIMITS
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.document import load
from logitkit.json_schema.membership import in_order, satisfies
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.references import References
from tests.json_schema.acceptance import acceptor, nested
from tests.json_schema.canonical import canonical
from tests.json_schema.generated import instances, schemas
from tests.json_schema.judge import exact, judge
from tests.json_schema.orders import accepted_in_some_order
from tests.json_schema.test_generated import QUICK, ends


def read(schema: Any) -> tuple[Reader, Any]:
    """The reader of a schema, and what its values satisfy."""
    reader = Reader(References.of(load(schema)), SCHEMA_LIMITS)
    return reader, reader.conjunction(reader.references.resources[""])


@QUICK
@given(st.data())
def test_values_satisfy_what_is_read_exactly_if_they_are_valid(data: st.DataObject) -> None:
    schema = data.draw(schemas)
    reader, root = read(schema)
    validator = judge(schema)
    assume(ends(validator))
    for value in data.draw(st.lists(instances(schema), min_size=6, max_size=12)):
        try:
            found = satisfies(reader, root, value)
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
    reader, root = read(schema)
    for value in data.draw(st.lists(instances(schema), min_size=6, max_size=12)):
        if satisfies(reader, root, value):
            ordered = in_order(reader, root, backwards(value))
            text = canonical(ordered)
            assert ordered == value
            assert accepts(text) or accepted_in_some_order(value, schema, nested(schema)), (schema, text)


def backwards(value: Any) -> Any:
    """The value with the members of its objects in the opposite order."""
    if isinstance(value, dict):
        return {name: backwards(value[name]) for name in [*value][::-1]}
    return [*map(backwards, value)] if isinstance(value, list) else value


@pytest.mark.parametrize(("value", "valid"), [([1, True], True), ([1, 1.0], False), ([{"a": 1}, {"a": 1.0}], False)])
def test_equal_items_are_equal_as_in_json(value: Any, valid: bool) -> None:
    assert satisfies(*read({"uniqueItems": True}), value) == valid


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
    assert json.dumps(in_order(*read(schema), value)) == ordered
