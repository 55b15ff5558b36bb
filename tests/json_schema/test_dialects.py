"""A document that names its draft has the keywords of that draft: later ones say nothing there, as `jsonschema` has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import UnsupportedSchema
from tests.json_schema.acceptance import BYTES, acceptor
from tests.json_schema.judge import judge

DRAFTS = {
    "4": "http://json-schema.org/draft-04/schema#",
    "6": "http://json-schema.org/draft-06/schema#",
    "7": "http://json-schema.org/draft-07/schema#",
    "2019": "https://json-schema.org/draft/2019-09/schema",
    "2020": "https://json-schema.org/draft/2020-12/schema",
}
ORDER = [*DRAFTS]

# Each with the first draft that has its keyword, and a value that the keyword forbids.
KEYWORDS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "type": ("4", {"type": "string"}, 1),
    "additionalProperties": ("4", {"additionalProperties": False}, {"a": 1}),
    "minimum": ("4", {"minimum": 2}, 1),
    "const": ("6", {"const": 2}, 1),
    "contains": ("6", {"contains": {"type": "string"}}, [1]),
    "propertyNames": ("6", {"propertyNames": {"maxLength": 1}}, {"ab": 1}),
    "exclusiveMinimum": ("6", {"exclusiveMinimum": 2}, 2),
    "exclusiveMaximum": ("6", {"minimum": 0, "exclusiveMaximum": 2}, 2),
    "if": ("7", {"if": {"type": "string"}, "then": {"minLength": 2}}, "a"),
    "else": ("7", {"if": {"type": "string"}, "else": False}, 1),
    "dependentRequired": ("2019", {"dependentRequired": {"a": ["b"]}}, {"a": 1}),
    "dependentSchemas": ("2019", {"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}),
    "minContains": ("2019", {"contains": {"type": "string"}, "minContains": 2}, ["a"]),
    "maxContains": ("2019", {"contains": {"type": "string"}, "maxContains": 1}, ["a", "b"]),
    "unevaluatedProperties": ("2019", {"properties": {"a": {}}, "unevaluatedProperties": False}, {"b": 1}),
    "unevaluatedItems": ("2019", {"unevaluatedItems": False}, [1]),
    "beside $ref": ("2019", {"$ref": "#/definitions/s", "definitions": {"s": {"maxLength": 3}}, "minLength": 2}, "a"),
    "prefixItems": ("2020", {"prefixItems": [{"type": "string"}]}, [1]),
    "$dynamicRef": ("2020", {"$dynamicRef": "#n", "$defs": {"n": {"$dynamicAnchor": "n", "type": "string"}}}, 1),
}


def below(schema: dict[str, Any], where: str) -> tuple[dict[str, Any], Any]:
    """Put a schema where it applies to the value itself, or to a part of it."""
    return {
        "whole": (schema, lambda value: value),
        "member": ({"properties": {"m": schema}}, lambda value: {"m": value}),
        "definition": ({"$ref": "#/definitions/d", "definitions": {"d": schema}}, lambda value: value),
    }[where]


# The target of the reference is at the root.
PLACES = [
    (keyword, where)
    for keyword, (_, schema, _) in KEYWORDS.items()
    for where in ("whole", "member", "definition")
    if where == "whole" or "#" not in json.dumps(schema)
]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(("keyword", "where"), PLACES)
def test_keywords_count_from_their_draft_on(keyword: str, draft: str, where: str) -> None:
    since, inner, forbidden = KEYWORDS[keyword]
    schema, around = below(inner, where)
    schema = {"$schema": DRAFTS[draft], **schema}
    value = around(forbidden)
    accepted = acceptor(schema)(json.dumps(value, separators=(",", ":")))
    assert accepted == judge(schema).is_valid(value)
    assert accepted == (ORDER.index(draft) < ORDER.index(since))


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_without_a_draft_all_count(keyword: str) -> None:
    _, schema, forbidden = KEYWORDS[keyword]
    assert not acceptor(schema)(json.dumps(forbidden, separators=(",", ":")))


@pytest.mark.parametrize(
    ("schema", "nullable"),
    [
        ({"type": "string", "nullable": True}, True),
        ({"type": "string", "nullable": False}, False),
        # A list of types is nothing that OpenAPI 3.0 has.
        ({"type": ["string"], "nullable": True}, False),
        ({"type": ["string", "null"], "nullable": False}, True),
        # Nothing but a type is widened.
        ({"nullable": True, "enum": ["a"]}, False),
        ({"type": "string", "nullable": True, "enum": ["a"]}, False),
        ({"type": "string", "nullable": True, "enum": ["a", None]}, True),
        ({"allOf": [{"type": "string"}], "nullable": True}, False),
        ({"$ref": "#/$defs/s", "$defs": {"s": {"type": "string"}}, "nullable": True}, False),
        # No draft has it.
        ({"$schema": DRAFTS["2020"], "type": "string", "nullable": True}, False),
        ({"$schema": DRAFTS["4"], "properties": {}, "type": "string", "nullable": True}, False),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*'nullable' at")
def test_nullable(schema: Any, nullable: bool) -> None:
    accepts = acceptor(schema)
    assert accepts("null") == nullable
    assert accepts('"a"')
    assert judge(schema).is_valid(None) == nullable


@pytest.mark.parametrize(
    ("named", "nullable"),
    [
        ("https://spec.openapis.org/oas/3.0/schema/2024-10-18#/definitions/Schema", True),
        ("https://spec.openapis.org/oas/3.1/dialect/base", False),
        ("https://spec.openapis.org/oas/3.1/dialect/2024-11-10", False),
    ],
)
def test_dialects_of_openapi(named: str, nullable: bool) -> None:
    accepts = acceptor({"$schema": named, "type": "array", "prefixItems": [{"type": "string", "nullable": True}]})
    assert accepts("[null]") == nullable
    assert accepts('["a"]')
    assert not accepts("[1]")
    with pytest.raises(UnsupportedSchema, match="and the dialects of OpenAPI 3"):
        acceptor({"$schema": "https://spec.openapis.org/oas/2.0/schema/2017-08-27"})


# Identifiers of drafts as they are written, and a keyword that came later.
SPELLINGS = [
    ("http://json-schema.org/draft-04/schema#", "const"),
    ("http://json-schema.org/draft-04/schema", "const"),
    ("https://json-schema.org/draft-04/hyper-schema#", "const"),
    ("http://json-schema.org/draft-05/schema#", "const"),
    ("https://json-schema.org/draft-06/schema", "if"),
    ("http://json-schema.org/draft-07/schema", "dependentRequired"),
    ("https://json-schema.org/draft-07/schema#", "dependentRequired"),
    ("http://json-schema.org/draft/2019-09/schema#", "prefixItems"),
    ("https://json-schema.org/draft/2019-09/hyper-schema", "prefixItems"),
    ("https://json-schema.org/draft/2020-12/schema#", None),
]


@pytest.mark.parametrize(("named", "later"), SPELLINGS)
def test_spellings_of_drafts(named: str, later: str | None) -> None:
    for keyword, (_, schema, forbidden) in KEYWORDS.items():
        if keyword in (later, "type"):
            accepted = acceptor({"$schema": named, **schema})(json.dumps(forbidden, separators=(",", ":")))
            assert accepted == (keyword == later), keyword


UNKNOWN = [
    "https://json-schema.org/v1",
    "https://json-schema.org/v1/2026",
    "https://json-schema.org/foo/bar",
    "https://json-schema.org/draft/next/schema",
    "https://json-schema.org/draft/2020-12",
    "https://json-schema.org/draft/2020-12/meta/core",
    "http://json-schema.org/draft-08/schema#",
    "http://json-schema.org/schema#",
    "http://json-schema.org/draft-07/schema#/definitions/x",
    "ftp://json-schema.org/draft-07/schema#",
    "http://json-schema.org.example/draft-07/schema#",
    "https://spec.openapis.org/oas/3.9/dialect/base",
]
LATER = {"propertyDependencies": {"a": {"b": {"required": ["c"]}}}, "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize("named", UNKNOWN)
def test_an_unknown_draft_is_refused_by_name(named: str) -> None:
    with pytest.raises(UnsupportedSchema, match="allowed are") as caught:
        lk.JsonSchema({"$schema": named, **LATER}, BYTES)
    assert repr(named) in str(caught.value)
    assert "draft/2020-12/schema" in str(caught.value)


def test_an_unknown_draft_is_left_out_with_lax() -> None:
    with pytest.warns(UserWarning, match=r"https://json-schema\.org/v1"):
        found = lk.JsonSchema({"$schema": "https://json-schema.org/v1", **LATER}, BYTES, lax=True)
    assert any("'$schema' at #" in reason for reason in found.automaton.dropped)
    assert found.matches('{"a":"b"}')
    assert not found.matches('{"a":1}')
    assert not lk.explain(found, BYTES, [], list(b'{"a":1')).complete


IN_2020 = {"$schema": DRAFTS["2020"], "dependentRequired": {"x": ["y"]}}


@pytest.mark.parametrize(
    ("whole", "inner", "says"),
    [
        # `jsonschema` reads each schema as the draft that it names.
        ({"$schema": DRAFTS["7"]}, {"properties": {"a": IN_2020}}, "is not the draft of the whole document, draft-07"),
        ({"$schema": DRAFTS["7"]}, {"$ref": "#/definitions/d", "definitions": {"d": IN_2020}}, "draft-07"),
        ({}, {"items": {"$id": "https://e/", "$schema": UNKNOWN[0], **LATER}}, "unknown; allowed are"),
        (
            {},
            {"$ref": "#/$defs/d", "$defs": {"d": {"$schema": UNKNOWN[0], "type": "string"}}, "minLength": 2},
            "unknown",
        ),
        ({}, {"$dynamicRef": "#n", "$defs": {"n": {"$dynamicAnchor": "n", "$schema": UNKNOWN[0]}}}, "unknown"),
        # Without keywords that are known.
        ({}, {"anyOf": [{"$schema": UNKNOWN[0], "propertyDependencies": {}}, {"type": "null"}]}, "unknown"),
        (
            {},
            {"properties": {"a": {"$schema": "http://json-schema.org/draft-03/schema#"}}},
            "draft 3 has other keywords",
        ),
    ],
)
def test_one_draft_in_a_document(whole: dict[str, Any], inner: dict[str, Any], says: str) -> None:
    with pytest.raises(UnsupportedSchema, match=rf"'\$schema' at #/.*{says}"):
        lk.JsonSchema({**whole, **inner}, BYTES)
    with pytest.warns(UserWarning, match=says):
        lk.JsonSchema({**whole, **inner}, BYTES, lax=True)


@pytest.mark.parametrize(
    "named", [DRAFTS["2020"], DRAFTS["2020"] + "#", "https://spec.openapis.org/oas/3.1/dialect/base"]
)
def test_the_same_draft_inside_a_document(named: str) -> None:
    accepts = acceptor(
        {"$schema": DRAFTS["2020"], "properties": {"$schema": {"const": "x"}, "a": {**IN_2020, "$schema": named}}}
    )
    assert accepts('{"$schema":"x","a":{"x":1,"y":2}}')
    assert not accepts('{"a":{"x":1}}')
    # A constant is not a schema, and a document that names no draft may hold schemas that do.
    assert acceptor({"const": {"$schema": "y"}})('{"$schema":"y"}')
    assert not acceptor({"properties": {"a": {**IN_2020, "$schema": named}}})('{"a":{"x":1}}')
