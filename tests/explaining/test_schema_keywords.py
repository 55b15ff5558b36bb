"""Each keyword of a schema is named when it refuses a text."""

from __future__ import annotations

from typing import Any

import pytest

import logitkit as lk
from logitkit.explaining.findings import Refusal
from logitkit.explaining.sources import Refused, sources_of

BYTES = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
AGE = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 18, "maximum": 99}}, "required": ["age"]}
PAIR = {"type": "object", "properties": {"a": {}, "b": {}}}
CLOSED = {**PAIR, "additionalProperties": False}
BOTH = {**CLOSED, "required": ["a", "b"]}
INTEGERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
NOTHING = {"allOf": [{"enum": [None]}, {"type": "boolean"}]}
SHAPE = {"anyOf": [{"type": "integer", "maximum": 5}, {"type": "string"}]}

# The schema, the text, the pointer of the reason, and the path of the value.
REFUSED: list[tuple[Any, str, str, str]] = [
    (AGE, '{"age":"x"}', "/properties/age/type", "/age"),
    (AGE, '{"age":True}', "/properties/age/type", "/age"),
    ({"type": "boolean"}, "truly", "/type", ""),
    (AGE, '{"age":100}', "/properties/age/maximum", "/age"),
    ({"type": "integer", "minimum": 0, "exclusiveMinimum": 3, "maximum": 10}, "0", "/exclusiveMinimum", ""),
    (
        {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 0, "exclusiveMinimum": True, "type": "integer"},
        "0",
        "/minimum",
        "",
    ),
    (AGE, '{"age":12}', "/properties/age/minimum", "/age"),
    (AGE, '{"age":12', "/properties/age/minimum", "/age"),
    (AGE, '{"age":-1}', "/properties/age/minimum", "/age"),
    (AGE, "{}", "/required", ""),
    (AGE, '{"name":"x"}', "/required", ""),
    ({"exclusiveMinimum": 3, "type": "integer"}, "3", "/exclusiveMinimum", ""),
    ({"exclusiveMaximum": 3, "type": "integer"}, "3", "/exclusiveMaximum", ""),
    ({"maximum": 3, "exclusiveMaximum": True, "type": "integer"}, "3", "/maximum", ""),
    ({"multipleOf": 5, "type": "integer"}, "[12]"[1:], "/multipleOf", ""),
    ({"type": "string", "maxLength": 2}, '"aé€"', "/maxLength", ""),
    ({"type": "string", "maxLength": 2, "pattern": "^[a-z]*$"}, '"a1"', "/pattern", ""),
    ({"type": "string", "minLength": 2}, '"a"', "/minLength", ""),
    ({"type": "string", "minLength": 2}, '"\\n"', "/minLength", ""),
    ({"type": "string", "pattern": "^[a-z]*$", "maxLength": 3}, '"ab1cd"', "/pattern", ""),
    ({"type": "string", "format": "date"}, '"2024-02-30"', "/format", ""),
    ({"enum": ["red", "green"]}, '"blue"', "/enum", ""),
    ({"const": {"a": [1]}}, '{"a":[2]}', "/const", ""),
    ({"type": "array", "items": {"type": "integer"}}, '[1,"a"]', "/items/type", "/1"),
    ({"type": "array", "minItems": 2}, "[1]", "/minItems", ""),
    ({"type": "array", "maxItems": 2}, "[1,2,3]", "/maxItems", ""),
    ({"type": "array", "maxItems": 2}, "[1,2,", "/maxItems", ""),
    ({"type": "array", "prefixItems": [{"type": "null"}], "items": False}, "[null,1]", "/items", ""),
    ({"type": "array", "prefixItems": [{"type": "null"}]}, "[1]", "/prefixItems/0/type", "/0"),
    ({"type": "array", "items": [{"type": "null"}], "additionalItems": False}, "[null,1]", "/additionalItems", ""),
    ({"type": "array", "contains": {"type": "null"}}, "[1]", "/contains", ""),
    ({"type": "array", "contains": {"type": "null"}, "maxContains": 1}, "[null,null]", "/contains", ""),
    ({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True}, "[1,1]", "/uniqueItems", ""),
    (CLOSED, '{"a":1,"c":2}', "/additionalProperties", ""),
    ({**CLOSED, "properties": {"a": {}, "b": NOTHING}}, '{"a":1,"b":null}', "/properties/b/allOf/1/type", "/b"),
    ({**CLOSED, "properties": {"a": {}, "b": False}}, '{"a":1,"b":null}', "/properties/b", "/b"),
    ({**CLOSED, "properties": {"a": {}, "b": NOTHING}}, '{"a":1,', "/additionalProperties", ""),
    ({"properties": {"a": NOTHING}, "required": ["a"]}, '{"a":null}', "/properties/a/allOf/1/type", "/a"),
    (BOTH, '{"b":1}', "/required", ""),
    (BOTH, '{"b":1,', "/required", ""),
    ({"type": "array", "prefixItems": [{}, NOTHING]}, "[1,null]", "/prefixItems/1/allOf/1/type", "/1"),
    (
        {"if": {"not": {"const": 1}}, "then": {"type": "object", "properties": {"a": {"const": [1]}}}},
        '{"a":[null]}',
        "/then/properties/a/const",
        "/a",
    ),
    ({**PAIR, "additionalProperties": {"type": "null"}}, '{"c":2}', "/additionalProperties/type", "/c"),
    ({**PAIR, "patternProperties": {"^x/": {"type": "null"}}}, '{"x/y":2}', "/patternProperties/^x~1/type", "/x~1y"),
    ({**PAIR, "propertyNames": {"maxLength": 1}}, '{"ab":2}', "/propertyNames/maxLength", ""),
    ({**PAIR, "minProperties": 1}, "{}", "/minProperties", ""),
    ({**PAIR, "maxProperties": 1}, '{"a":1,"b":2}', "/maxProperties", ""),
    ({**PAIR, "dependentRequired": {"a": ["b"]}}, '{"a":1}', "/dependentRequired", ""),
    ({**PAIR, "dependencies": {"a": ["b"]}}, '{"a":1}', "/dependencies", ""),
    (
        {**PAIR, "dependentSchemas": {"a": {"properties": {"b": {"type": "null"}}}}},
        '{"a":1,"b":2}',
        "/dependentSchemas/a/properties/b/type",
        "/b",
    ),
    ({**PAIR, "unevaluatedProperties": False}, '{"c":1}', "/unevaluatedProperties", ""),
    ({"type": "array", "prefixItems": [True], "unevaluatedItems": False}, "[1,2]", "/unevaluatedItems", ""),
    ({"type": "object", "properties": {"a": False}}, '{"a":1}', "/properties/a", "/a"),
    ({"allOf": [{"type": "integer"}, {"maximum": 5}]}, "7", "/allOf/1/maximum", ""),
    (SHAPE, "7", "/anyOf", ""),
    ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "null", "/oneOf", ""),
    ({"type": "integer", "not": {"const": 5}}, "5", "/not", ""),
    (
        {
            **PAIR,
            "if": {"properties": {"a": {"const": 1}}},
            "then": {"required": ["b"]},
            "else": {"properties": {"b": {"type": "null"}}},
        },
        '{"a":2,"b":3}',
        "/else/properties/b/type",
        "/b",
    ),
    ({"$defs": {"x": {"items": {"$ref": "#/$defs/x"}, "type": "array"}}, "$ref": "#/$defs/x"}, "[[1]]", "/$defs/x/type", "/0/0"),
    ({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "null"}}}, '{"a":1}', "/$defs/x/type", "/a"),
]  # fmt: skip


def refusal(schema: Any, text: str) -> Refusal:
    found = lk.explain(lk.JsonSchema(schema, BYTES), BYTES, [], [*text.encode(), 256]).refusal
    assert found is not None
    return found


@pytest.mark.parametrize(("schema", "text", "pointer", "path"), REFUSED)
def test_a_keyword_is_named_with_its_place(schema: Any, text: str, pointer: str, path: str) -> None:
    """The pointer of the keyword and the path of the value are those that validators report."""
    source = refusal(schema, text).sources[0]
    assert (source.kind, source.pointer, source.path) == ("schema", pointer, path)


def test_the_branches_of_a_union_follow_the_union() -> None:
    """So that a reader sees why each of them fails."""
    pointers = [source.pointer for source in refusal(SHAPE, "7").sources]
    assert pointers == ["/anyOf", "/anyOf/0/maximum", "/anyOf/1/type"]


@pytest.mark.parametrize(
    ("schema", "text", "reason", "path"),
    [
        (AGE, '{"age": 20}', "whitespace: compact", "/age"),
        (PAIR, '{"b":1,"a":2}', "the members stand in the order of the schema", "/a"),
        (CLOSED, '{"b":1,"a":2}', "the members stand in the order of the schema", "/a"),
        (BOTH, '{"b":1,"a":2}', "the members stand in the order of the schema", "/b"),
        ({**BOTH, "minProperties": 2}, '{"b":1,"a":2}', "the members stand in the order of the schema", "/b"),
        # A value after the refused byte is wrong as well.
        (INTEGERS, '{"b":1,"a":"x"}', "the members stand in the order of the schema", "/a"),
        (
            {**INTEGERS, "additionalProperties": False},
            '{"b":1,"a":"x"}',
            "the members stand in the order of the schema",
            "/a",
        ),
        ({**INTEGERS, "required": ["a", "b"]}, '{"b":1,"a":"x"}', "the members stand in the order of the schema", "/b"),
        (PAIR, '{"a":1,"a":2}', "each member stands once", "/a"),
        (CLOSED, '{"b":1,"b":2}', "each member stands once", "/b"),
        ({"type": "string"}, '"\\u0061"', "no needless escapes", ""),
        # The value is valid, or not, however it is spelled.
        ({"type": "string", "pattern": "^a$"}, '"\\u0061"', "no needless escapes", ""),
        ({"type": "string", "pattern": "^a$"}, '"\\u0062"', 'pattern: "^a$"', ""),
        ({"enum": ["a", "b"]}, '"\\u0062"', "no needless escapes", ""),
        (CLOSED, '{"\\u0061":1}', "no needless escapes", "/a"),
        ({"type": "number", "maximum": 3}, "1e0", "numbers without an exponent", ""),
        ({"type": "number", "maximum": 3}, "1e1", "maximum: 3", ""),
        ({"type": "number", "multipleOf": 0.5}, "1.5e0", "numbers without an exponent", ""),
        ({"type": "integer", "minimum": 0}, "1e2", "numbers without an exponent", ""),
        ({"enum": [10, 20]}, "1e1", "numbers without an exponent", ""),
        ({"items": {"type": "number", "minimum": 2}}, "[1e-1,3]", "minimum: 2", "/0"),
        ({"type": "array"}, "[1;2]", "the syntax of JSON", "/0"),
        ({"type": "integer"}, "1.0", 'type: "integer"', ""),
    ],
)
def test_spelling_is_named_where_no_value_is_refused(schema: Any, text: str, reason: str, path: str) -> None:
    """The source is the schema of the value."""
    source = refusal(schema, text).sources[0]
    assert (source.text, source.path) == (reason, path)


def test_white_space_is_not_blamed_for_a_number_that_ends_too_early() -> None:
    """With white space allowed, the space ends the number."""
    constraint = lk.JsonSchema(AGE, BYTES, whitespace="bounded")
    found = lk.explain(constraint, BYTES, [], '{"age": 12 }').refusal
    assert found is not None
    assert found.sources[0].pointer == "/properties/age/minimum"


def test_deep_texts_have_no_reason_rather_than_an_error() -> None:
    """The text is read by recursion."""
    constraint = lk.JsonSchema({}, BYTES)
    text = b"[" * 5000
    assert sources_of(constraint, Refused(text, b"x")) == ()
