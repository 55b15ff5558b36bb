"""JSON Schemas that requests ask for, and whether a text satisfies them."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z][a-z]+$", "maxLength": 12},
        "age": {"type": "integer", "minimum": 18, "maximum": 99},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}

# It nests without bound.
TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 6},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["name", "children"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}

SCHEMAS: dict[str, Any] = {
    "record": PERSON,
    "tree": TREE,
    "numbers": {"type": "array", "items": {"type": "number", "multipleOf": 0.5}, "minItems": 2},
    "anything": True,
}

# With `closing` a text is whole, however few tokens are left.
CONFIGURATIONS: tuple[tuple[dict[str, Any], Any], ...] = tuple(
    ({"json_schema": {"schema": schema, "closing": closing, "whitespace": whitespace}, **more}, schema)
    for schema in SCHEMAS.values()
    for closing, whitespace, more in ((True, "compact", {"repetition_penalty": 1.2}), (30, "bounded", {}))
)

TOKENS = 40


def requests(prompt: str) -> list[tuple[str, dict[str, Any]]]:
    """Return a request for each configuration."""
    params = {"max_tokens": TOKENS, "temperature": 0.0}
    return [(prompt, {**params, "extra_args": {"logitkit": config}}) for config, _ in CONFIGURATIONS]


def check(text: str, schema: Any) -> None:
    """Assert that a text is JSON of a schema."""
    jsonschema.Draft202012Validator(schema).validate(json.loads(text))
