"""Items that no keyword has looked at: every short array is judged as `jsonschema` judges it."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from logitkit.errors import UnsupportedSchema
from tests.json_schema.acceptance import acceptor
from tests.json_schema.judge import judge

ARRAYS = [list(items) for count in range(4) for items in product((1, "a", None), repeat=count)]
INTEGER, STRING = {"type": "integer"}, {"type": "string"}
SCHEMAS: list[dict[str, Any]] = [
    {"prefixItems": [STRING], "unevaluatedItems": INTEGER},
    {"if": {"items": STRING}, "unevaluatedItems": INTEGER},
    {"if": {"prefixItems": [STRING], "items": INTEGER}, "else": {"prefixItems": [{}]}, "unevaluatedItems": False},
    {"oneOf": [{"items": STRING}, {"items": INTEGER}], "unevaluatedItems": False},
    {"anyOf": [{"items": STRING}, {"prefixItems": [INTEGER]}], "unevaluatedItems": False},
    # A negated schema has evaluated nothing.
    {"not": {"items": STRING}, "unevaluatedItems": INTEGER},
    {"not": {"items": STRING}, "prefixItems": [{}], "unevaluatedItems": INTEGER},
    {"not": {"contains": STRING}, "unevaluatedItems": INTEGER},
    {"not": {"contains": STRING, "minContains": 2}, "unevaluatedItems": False},
    {"not": {"contains": STRING, "minContains": 2}, "contains": INTEGER, "unevaluatedItems": False},
    # A contained item has been evaluated.
    {"contains": STRING, "unevaluatedItems": False},
    {"contains": STRING, "minContains": 0, "unevaluatedItems": False},
    {"contains": STRING, "minContains": 0, "maxContains": 1, "unevaluatedItems": False},
    {"prefixItems": [{}], "contains": STRING, "unevaluatedItems": False},
    {"allOf": [{"contains": STRING}, {"prefixItems": [INTEGER]}], "unevaluatedItems": False},
    {"if": {"contains": STRING}, "unevaluatedItems": False},
    {"if": {"contains": STRING}, "else": {"contains": INTEGER}, "unevaluatedItems": False},
    {"oneOf": [{"contains": STRING}, {"contains": INTEGER}], "unevaluatedItems": False},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_every_short_array(schema: dict[str, Any]) -> None:
    schema = {"type": "array", **schema}
    accepts, validator = acceptor(schema), judge(schema)
    accepted = [array for array in ARRAYS if accepts(json.dumps(array, separators=(",", ":")))]
    assert accepted == [array for array in ARRAYS if validator.is_valid(array)]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"contains": STRING, "unevaluatedItems": INTEGER}, "depend on those that match 'contains'"),
        (
            {"allOf": [{"contains": STRING}, {"contains": INTEGER}], "unevaluatedItems": False},
            "or set it to false and use only one 'contains'",
        ),
        (
            {
                "$schema": "https://json-schema.org/draft/2019-09/schema",
                "contains": STRING,
                "unevaluatedItems": False,
            },
            "draft 2019-09 does not say",
        ),
    ],
)
def test_what_depends_on_more_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedSchema, match=f"'unevaluatedItems' at #: .*{message}"):
        acceptor(schema)
