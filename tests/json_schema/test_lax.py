"""lax=True leaves out any number of keywords, and never forbids a value that the schema allows."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, UnsupportedSchema
from tests.counted_calls import calls
from tests.json_schema.acceptance import BYTES, Accepted
from tests.json_schema.canonical import canonical
from tests.json_schema.judge import exact, judge
from tests.json_schema.orders import accepted_in_some_order

BACKREFERENCE = r"^(a|b)\1"

# Each schema has a keyword that cannot be enforced, and a variant of itself without it. `{}` stands for a number.
LEAVES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "pattern": ({"type": "string", "pattern": BACKREFERENCE, "minLength": 1}, {"type": "string", "minLength": 1}),
    "uniqueItems": (
        {
            "type": "array",
            "prefixItems": [{"type": "string"}],
            "items": {"type": "string"},
            "contains": {"type": "string"},
            "uniqueItems": True,
            "minItems": 1,
        },
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
    ),
    "minProperties": (
        {"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 3, "maxProperties": 5},
        {"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 1, "maxProperties": 5},
    ),
    "$ref": ({"type": "integer", "$ref": "https://example.org/a.json"}, {"type": "integer"}),
    "multipleOf": ({"type": "number", "multipleOf": 0.123456789, "minimum": 1}, {"type": "number", "minimum": 1}),
}
# In these, what remains of the schema, or each failed attempt, takes long.
COSTLY = {"minProperties", "multipleOf"}
TEXTS = [
    "null",
    "1",
    "0",
    "1.5",
    '""',
    '"a"',
    '"("',
    '"aa"',
    "[]",
    '["a"]',
    '["a","a"]',
    "[1]",
    "{}",
    '{"x":null}',
    '{"x":1}',
]


def _lax(schema: Any, **options: Any) -> tuple[Accepted, str]:
    """Return the texts of a schema, and what is said about the keywords that are left out."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = lk.JsonSchema(schema, BYTES, lax=True, **options)
    return Accepted(found), "".join(str(warning.message) for warning in warned)


@pytest.mark.parametrize("keyword", LEAVES)
def test_any_number_of_keywords(keyword: str) -> None:
    """As many members have the keyword as take one pass: the work grows with their number."""
    leaf, without = LEAVES[keyword]
    counts = (12, 60) if keyword in COSTLY else (25, 200)
    work = []
    for count in counts:
        members = {f"m{i}": {**leaf, "x-number": i} for i in range(count)}
        schema = {"type": "object", "properties": members, "additionalProperties": False}
        work.append(calls(partial(_lax, schema)))
        dfa, said = _lax(schema)
        assert said.count(f"{keyword!r} at ") == count
        assert all(f"{keyword!r} at #/properties/m{i}: " in said for i in range(count))
    # Which member may follow which grows with the square, but costs little.
    assert work[1] * counts[0] < 3 * work[0] * counts[1]
    wanted = lk.JsonSchema(without, BYTES).nested_dfa()
    for text in TEXTS:
        assert dfa.accepts(f'{{"m7":{text}}}'.encode()) == wanted.accepts(text.encode()), text
    assert dfa.accepts(b'{"m3":1}') == wanted.accepts(b"1")


@pytest.mark.parametrize("keyword", LEAVES)
@pytest.mark.parametrize("whitespace", ["compact", "bounded"])
def test_all_together(keyword: str, whitespace: str) -> None:
    members = {name: leaf for name, (leaf, _) in LEAVES.items()}
    dfa, said = _lax({"properties": members}, whitespace=whitespace)
    assert said.startswith("JsonSchema leaves out what it cannot enforce exactly: ")
    assert said.count(" at #/properties/") == len(LEAVES)
    wanted = lk.JsonSchema(LEAVES[keyword][1], BYTES).nested_dfa()
    for text in TEXTS:
        assert dfa.accepts(f'{{"{keyword}":{text}}}'.encode()) == wanted.accepts(text.encode()), text


def test_names_and_first_items_that_are_left_out_make_no_others() -> None:
    """It is not known what such a keyword would have looked at, so `additionalProperties` and `unevaluatedItems` say nothing."""
    dfa, _ = _lax({"patternProperties": {BACKREFERENCE: {"type": "null"}}, "additionalProperties": False})
    assert dfa.accepts(b'{"aa":null}')
    dfa, _ = _lax({"allOf": [{"prefixItems": [True], "$ref": "https://example.org/a"}], "unevaluatedItems": False})
    assert dfa.accepts(b"[1,2]")


def test_recursion_is_not_to_blame() -> None:
    """A reference to a schema that is still being read must not be left out."""
    node = {
        "oneOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": "a"}, "next": {"$ref": "#"}},
                "required": ["kind", "next"],
            },
            {
                "type": "object",
                "properties": {"kind": {"const": "b"}, "name": {"pattern": BACKREFERENCE}},
                "required": ["kind"],
            },
            {
                "allOf": [
                    {"type": "array", "prefixItems": [{}], "contains": {}},
                    {"items": {"$ref": "#"}, "uniqueItems": True},
                ]
            },
        ]
    }
    dfa, said = _lax(node)
    assert said.count(" at #") == 2
    assert "'pattern' at #/oneOf/1/properties/name: " in said
    assert "'uniqueItems' at #/oneOf/2/allOf/1: " in said
    assert dfa.accepts(b'{"kind":"a","next":[{"kind":"b"},{"kind":"b"}]}')
    assert not dfa.accepts(b'{"kind":"a","next":[1]}')


def test_a_schema_that_is_too_large_as_a_whole_is_refused() -> None:
    """No keyword is to blame, so leaving out those that come last would not help."""
    members = {f"m{i}": {"type": "string", "pattern": f"^[a-z]{{1,40}}{i}[0-9]{{40}}$"} for i in range(3000)}
    with pytest.raises(UnsupportedSchema):
        lk.JsonSchema({"properties": members}, BYTES, lax=True)


def test_what_is_never_written_is_not_left_out() -> None:
    schema = {
        "oneOf": [
            {"type": "object", "properties": {"a": False, "b": {"pattern": BACKREFERENCE}}, "required": ["a"]},
            {"const": 1},
        ]
    }
    dfa, said = _lax(schema)
    assert said == ""
    assert dfa.accepts(b"1")


SCALARS = [
    {"format": "regex"},
    {"pattern": BACKREFERENCE},
    {"multipleOf": 0.123456789},
    {"type": "string"},
    {"const": 1},
    {"type": "null"},
]
SCALARS += [{"minimum": 1}, {"maxLength": 1}, {"type": ["array", "object"]}, {"enum": ["a", [], {"a": 1}]}]
ARRAYS = [{"uniqueItems": True}, {"minItems": 1}, {"maxItems": 1}, {"uniqueItems": True, "maxItems": 2}]
OBJECTS = [
    {"minProperties": 2},
    {"maxProperties": 1},
    {"required": ["a"]},
    {"patternProperties": {BACKREFERENCE: False}},
]


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    few = st.lists(inner, min_size=1, max_size=2)
    return st.one_of(
        st.fixed_dictionaries({"not": inner}),
        few.map(lambda schemas: {"allOf": schemas}),
        few.map(lambda schemas: {"anyOf": schemas}),
        few.map(lambda schemas: {"oneOf": schemas}),
        st.fixed_dictionaries({"if": inner, "then": inner}, optional={"else": inner}),
        # Members are written in this order, as they are in the values.
        st.fixed_dictionaries(
            {"properties": few.map(lambda schemas: dict(zip("ab", schemas, strict=False)))},
            optional={"additionalProperties": inner},
        ),
        st.fixed_dictionaries({"prefixItems": few}, optional={"items": inner, "unevaluatedItems": inner}),
        st.fixed_dictionaries({"items": inner, "uniqueItems": st.booleans()}),
        st.fixed_dictionaries({"contains": inner}),
        st.fixed_dictionaries({"additionalProperties": inner, "minProperties": st.integers(0, 3)}),
        st.fixed_dictionaries({"anyOf": few, "unevaluatedProperties": inner}),
        st.tuples(inner, inner).map(lambda two: {**two[0], **two[1]}),
    )


SCHEMAS = st.recursive(st.sampled_from([*SCALARS, *ARRAYS, *OBJECTS]), _larger, max_leaves=7)
VALUES: list[Any] = [
    *(
        None,
        True,
        0,
        1,
        2,
        1.5,
        "",
        "a",
        "(",
        "aa",
        "ab",
        "aab",
        [],
        ["a"],
        ["a", "a"],
        [1, 1],
        [1, "a"],
        [[], []],
        [{}],
    ),
    *({}, {"a": 1}, {"a": "a"}, {"a": "("}, {"a": 1, "b": 1}, {"c": 1, "d": 2}, {"aa": 1}, {"a": {"a": 1}}, {"a": []}),
    *(
        {"a": {"c": 1, "d": 2}},
        {"a": ["a", "a"]},
        {"b": None},
        [["a", "a"]],
        [{"a": 1, "b": 1}],
        {"a": 1, "c": 2, "d": 3},
    ),
]


@settings(deadline=None)
@given(SCHEMAS)
def test_no_value_is_forbidden_that_the_schema_allows(schema: Any) -> None:
    """Also where keywords are left out inside `not`, `oneOf` and `if`. The library `jsonschema` says what is allowed."""
    validator = judge(schema)
    dfa, said = None, ""
    try:
        dfa, said = _lax(schema)
    except (ConfigurationError, UnsupportedSchema) as error:
        # Or what cannot be enumerated is negated, and no keyword alone is to blame.
        refused = isinstance(error, UnsupportedSchema) and error.keyword is None
        if not refused and "no value satisfies the schema" not in str(error):
            raise
        if refused:
            return
    for value in map(exact, VALUES):
        accepted = dfa is not None and dfa.accepts(canonical(value, validator).encode())
        if validator.is_valid(value):
            assert accepted or (dfa is not None and accepted_in_some_order(value, schema, dfa)), (value, said)
        elif not said:
            assert not accepted, value
