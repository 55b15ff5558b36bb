"""A keyword that cannot be honoured exactly is refused by name and pointer, or left out with a warning that names both."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.compile import schema_grammar
from tests.json_schema.acceptance import BYTES, acceptor


class Refusal(NamedTuple):
    """A schema with one keyword that is refused.

    Args:
        schema: The schema.
        pointer: The pointer of the schema that contains the keyword.
        keyword: The keyword; None if the whole schema is to blame.
        reason: The message.
        free: A text that is legal without the keyword.
        never: A text that the rest of the schema forbids; None if it allows any value.
    """

    schema: Any
    pointer: str
    keyword: str | None
    reason: str
    free: str
    never: str | None


_BACKREFERENCE = {"type": "string", "pattern": r"(a)\1"}
_BRANCHES = [
    {"oneOf": [{"items": {"const": j}, "minItems": i}, {"maxItems": i, "items": {"minimum": j}}]}
    for i, j in enumerate(range(20, 1, -1))
]
_ALL_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
_ALL_NUMBERS = {"type": "object", "additionalProperties": {"type": "number"}}
_SETS = {f"[{letter}]": {"minimum": i} for i, letter in enumerate("abcdefghijklmnop")}
_KINDS = (("strings", "string"), ("numbers", "number"))
_SCOPES = {
    **{
        name: {"$id": name, "$ref": "list", "$defs": {"n": {"$dynamicAnchor": "n", "type": kind}}}
        for name, kind in _KINDS
    },
    "list": {"$id": "list", "items": {"$dynamicRef": "#n"}, "$defs": {"n": {"$dynamicAnchor": "n"}}},
}
_LOOP = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}


def _member(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a/b": schema}, "required": ["a/b"], "additionalProperties": False}


_IN_MEMBER = "#/properties/a~1b"

REFUSALS = {
    "another document": Refusal(
        _member({"$ref": "https://example.org/a.json"}), _IN_MEMBER, "$ref", "in another document", '{"a/b":[]}', "{}"
    ),
    "no such definition": Refusal(
        _member({"$ref": "#/$defs/x"}), _IN_MEMBER, "$ref", "points to nothing", '{"a/b":1}', "[]"
    ),
    "no such anchor": Refusal(_member({"$ref": "#x"}), _IN_MEMBER, "$ref", "no anchor 'x'", '{"a/b":1}', "[]"),
    "itself": Refusal({"$ref": "#"}, "#", "$ref", "refers to itself", "[1]", None),
    "each other": Refusal({"$defs": _LOOP, "$ref": "#/$defs/a"}, "#/$defs/a", "$ref", "refers to itself", "1", None),
    "itself among others": Refusal(
        {"type": "string", "allOf": [{"$ref": "#"}]}, "#/allOf/0", "$ref", "refers to itself", '"a"', "1"
    ),
    "its own negation": Refusal(
        {"type": "string", "not": {"$ref": "#"}}, "#/not", "$ref", "refers to itself", '"a"', "1"
    ),
    "dynamic scope": Refusal(
        {"type": "array", "$defs": _SCOPES, "anyOf": [{"$ref": "strings"}, {"$ref": "numbers"}]},
        "#/$defs/list/items",
        "$dynamicRef",
        "one of 2 schemas",
        "[1]",
        "1",
    ),
    "different objects": Refusal(
        {"type": "array", "items": {"type": "object", "maxProperties": 2}, "uniqueItems": True},
        *("#", "uniqueItems", "whether they are different", "[{},{}]", "[1]"),
    ),
    "different names": Refusal(
        {"type": "object", "propertyNames": {"pattern": "^[a-c]{6}$"}, "minProperties": 800},
        *("#", "minProperties", "800 different names", '{"aaaaaa":1}', "[]"),
    ),
    "fine steps": Refusal(
        {"type": "number", "multipleOf": 0.123456789}, "#", "multipleOf", "too many remainders", "1", '"a"'
    ),
    "backreference": Refusal(_BACKREFERENCE, "#", "pattern", "backreference", '"b"', "1"),
    "backreference in a name": Refusal(
        {"type": "object", "propertyNames": _BACKREFERENCE},
        "#/propertyNames",
        "pattern",
        "backreference",
        '{"b":1}',
        "1",
    ),
    "backreference for names": Refusal(
        {"type": "object", "patternProperties": {r"(a)\1": {"type": "null"}}},
        *("#", "patternProperties", "backreference", '{"aa":1}', "1"),
    ),
    "no pattern": Refusal({"type": "string", "pattern": "("}, "#", "pattern", "unterminated", '"b"', "1"),
    "large pattern": Refusal(
        {"type": "string", "pattern": "^[01]*1[01]{40}$"},
        "#",
        "pattern",
        "simplify the schema, or pass limits=Limits(",
        '"b"',
        "1",
    ),
    "long names": Refusal(
        {"type": "object", "propertyNames": {"maxLength": 10**7}},
        "#",
        "propertyNames",
        "simplify the schema, or pass limits=Limits(",
        '{"b":1}',
        "1",
    ),
    "long strings that cannot be counted": Refusal(
        {"type": "string", "pattern": "^(ab)*$", "minLength": 30, "maxLength": 10**7},
        *("#", "maxLength", "simplify the schema, or pass limits=Limits(", f'"{"ab" * 15}"', '"ab"'),
    ),
    "long strings beside others": Refusal(
        {"type": "array", "items": {"type": "string", "maxLength": 10**7}, "contains": {"maxLength": 3}},
        *("#/items", "maxLength", "simplify the schema, or pass limits=Limits(", '["abcd","a"]', '["abcd"]'),
    ),
    "long arrays": Refusal(
        {
            "type": "array",
            "items": {"type": ["integer", "null"]},
            "maxItems": 10**6,
            "contains": {"type": "null"},
            "maxContains": 9,
        },
        "#",
        "maxItems",
        "too many states",
        "[null]",
        "1",
    ),
    "items that are looked at": Refusal(
        {"contains": {"type": "string"}, "unevaluatedItems": {"type": "null"}},
        *("#", "unevaluatedItems", "those that match 'contains'", '["a",1]', "[1]"),
    ),
    "branches": Refusal({"type": "array", "allOf": _BRANCHES}, "#", "allOf", "more than 4096 branches", "[]", "1"),
    "sets of names": Refusal(
        {"type": "object", "patternProperties": _SETS}, "#", "patternProperties", "more than 64 sets", '{"z":1}', "1"
    ),
    "negated names": Refusal(
        {
            "if": {"additionalProperties": {"type": "integer"}},
            "then": False,
            "else": {"not": {"additionalProperties": {"type": "null"}}},
            "type": ["object", "null"],
        },
        *("#/else/not", None, "cannot be negated together", '{"a":null}', "1"),
    ),
    "negated beside each other": Refusal(
        {
            "properties": {"a": {"not": _ALL_STRINGS, "type": "object"}},
            "patternProperties": {"^a": {"not": _ALL_NUMBERS, "type": ["object", "null"]}},
        },
        *("#/patternProperties/^a/not", None, "cannot be negated together", '{"a":{"b":1}}', '{"a":1}'),
    ),
    "negated values": Refusal(
        {"not": {"properties": {"a": {"anyOf": [_ALL_STRINGS, _ALL_NUMBERS]}}}},
        *("#/not/properties/a", None, "cannot be negated together", '{"a":{"b":1}}', None),
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
def test_it_is_refused_by_name(refusal: Refusal) -> None:
    with pytest.raises(UnsupportedSchema, match=re.escape(refusal.reason)) as error:
        lk.JsonSchema(refusal.schema, BYTES)
    assert (error.value.pointer, error.value.keyword) == (refusal.pointer, refusal.keyword)
    assert refusal.pointer in str(error.value)
    assert refusal.keyword is None or repr(refusal.keyword) in str(error.value)


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
def test_lax_leaves_it_out(refusal: Refusal) -> None:
    named = f"{refusal.keyword!r} at {refusal.pointer}: " if refusal.keyword else f"the schema at {refusal.pointer}: "
    with pytest.warns(UserWarning, match=f"^JsonSchema leaves out .*{re.escape(named)}") as warned:
        found = lk.JsonSchema(refusal.schema, BYTES, lax=True)
    assert len(warned) == 1
    assert refusal.reason in str(warned[0].message)
    assert warned[0].filename == __file__
    automaton = found.nested_dfa()
    assert automaton.accepts(refusal.free.encode())
    assert refusal.never is None or not automaton.accepts(refusal.never.encode())


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"enum": [f"w{i}" for i in range(200_001)]}, "more than 200000 values"),
        ('{"description": "' + "a" * 8_000_001 + '"}', "more than 8000000"),
        ({"$schema": "https://example.org/mine"}, "'https://example.org/mine' is unknown"),
        ({"$schema": "http://json-schema.org/draft-03/schema#", "divisibleBy": 2}, "draft 3 has other keywords"),
    ],
    ids=["values", "text", "dialect", "draft 3"],
)
@pytest.mark.parametrize("lax", [False, True])
def test_a_document_that_is_refused_as_a_whole(schema: Any, reason: str, lax: bool) -> None:
    with pytest.raises(UnsupportedSchema, match=f"at #: .*{reason}"):
        lk.JsonSchema(schema, BYTES, lax=lax)


def test_lax_names_all_that_it_leaves_out() -> None:
    members = {"a": {"multipleOf": 0.123456789}, "b": {"type": "string", "pattern": r"(x)\1"}, "c": {"type": "integer"}}
    with pytest.warns(UserWarning, match=r"'multipleOf' at #/properties/a: ") as warned:
        lk.JsonSchema({"properties": members, "additionalProperties": False}, BYTES, lax=True)
    assert len(warned) == 1
    assert "'pattern' at #/properties/b: " in str(warned[0].message)


def test_lax_does_not_start_over_without_end() -> None:
    schema = {"prefixItems": [{"type": "string", "pattern": f"^(a|b)*a(a|b){{40}}{i}$"} for i in range(20)]}
    with pytest.raises(UnsupportedSchema, match="'pattern' at #/prefixItems/") as error:
        lk.JsonSchema(schema, BYTES, lax=True)
    assert "lax=True has started again until that took more steps than the limit" in str(error.value)


def test_lax_says_nothing_where_it_changes_nothing() -> None:
    schema = {"type": "array", "items": {"type": "integer", "minimum": 3}, "maxItems": 2}
    assert lk.JsonSchema(schema, BYTES, lax=True).automaton.nbytes == lk.JsonSchema(schema, BYTES).automaton.nbytes


def test_what_is_known_in_part_is_not_negated() -> None:
    """A string may not match the pattern, so leaving it out inside `not` must not forbid all strings."""
    schema = {"type": "string", "not": {"pattern": r"(a)\1", "maxLength": 2}}
    with pytest.warns(UserWarning, match="'pattern' at #/not: "):
        found = lk.JsonSchema(schema, BYTES, lax=True)
    automaton = found.nested_dfa()
    assert automaton.accepts(b'"a"')
    assert automaton.accepts(b'"long"')
    assert not automaton.accepts(b"1")


@pytest.mark.parametrize(
    "schema",
    [False, {"type": "string", "minLength": 2, "maxLength": 1}, {"enum": []}, {"allOf": [{"const": 1}, {"const": 2}]}],
)
def test_schemas_without_values_are_wrong(schema: Any) -> None:
    with pytest.raises(ConfigurationError, match="no value satisfies the schema"):
        lk.JsonSchema(schema, BYTES)
    assert not acceptor(schema)("1")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "strin"}, "type"),
        ({"properties": []}, "properties"),
        ({"minimum": "1"}, "minimum"),
        ({"required": "a"}, "required"),
        ({"items": 1}, "items"),
        ({"pattern": 1}, "pattern"),
        ({"multipleOf": 0}, "multipleOf"),
        ({"minLength": -1}, "minLength"),
        ({"enum": 1}, "enum"),
        ({1: 2}, "the key 1"),
        ({"const": float("nan")}, "nan"),
        ("{", "not JSON text"),
        (None, "NoneType"),
    ],
)
def test_invalid_schemas_are_refused(schema: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        lk.JsonSchema(schema, BYTES)


def test_options_are_checked() -> None:
    for wrong, message in (
        ({"whitespace": "free"}, "whitespace is 'free'; allowed are"),
        ({"lax": 1}, "lax is 1; allowed are True and False"),
        ({"strict_formats": None}, "strict_formats is None; allowed are True and False"),
        ({"max_depth": 0}, "max_depth is 0; allowed are integers from 1 to 1024"),
        ({"max_depth": True}, "max_depth is True; allowed are integers"),
        ({"closing": 0}, "closing is 0; allowed are integers from 1"),
        ({"closing": 1.5}, "closing is 1.5; allowed are integers from 1"),
    ):
        options: dict[str, Any] = wrong
        with pytest.raises(ConfigurationError, match=re.escape(message)):
            lk.JsonSchema(True, BYTES, **options)


def test_a_nested_grammar_without_calls_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All other ways to write it would be the same."""
    written = []

    def noted(*arguments: Any, **more: Any) -> Any:
        written.append(arguments)
        return schema_grammar(*arguments, **more)

    monkeypatch.setattr("logitkit.constraints.json_schema.schema_grammar", noted)
    with pytest.raises(UnsupportedSchema, match="more than 50 states"):
        lk.JsonSchema({"const": [*range(100)]}, BYTES, limits=lk.Limits(states=50))
    assert len(written) == 1
