"""`response_format` of OpenAI's API, as the JSON Schema that the answer must follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logitkit_adapters.serving.refusals import RefusedRequest

__all__ = ["FIELD", "schema_of"]

FIELD = "response_format"

ALLOWED = (
    'allowed are {"type": "text"}, {"type": "json_object"} and {"type": "json_schema", "json_schema": {"name": ..., "schema": '
    "...}}"
)

# Members with a schema that belong to another type. Ignoring one would drop the schema that the client wants.
STRAY = {"text": ("json_schema", "schema"), "json_object": ("json_schema",), "json_schema": ("schema",)}


def schema_of(given: Any) -> Any | None:
    """Return the schema of a response format, or None if the answer is free text.

    Args:
        given: The value of `response_format`, or None.

    Raises:
        RefusedRequest: It is another value.

    Example:
        >>> schema_of({"type": "json_object"}), schema_of({"type": "text"})
        ({'type': 'object'}, None)
    """
    if given is None:
        return None
    kind = given.get("type") if isinstance(given, Mapping) else None
    stray = next((name for name in STRAY.get(str(kind), ()) if given.get(name) is not None), None)
    if stray is not None:
        raise RefusedRequest(f"{FIELD} has the type {kind!r}, which has no {stray!r}; {ALLOWED}", FIELD)
    if kind == "text":
        return None
    if kind == "json_object":
        # llama.cpp's servers take a schema here.
        return given["schema"] if given.get("schema") is not None else {"type": "object"}
    if kind == "json_schema":
        named = given.get("json_schema")
        if isinstance(named, Mapping) and named.get("schema") is not None:
            return named["schema"]
        raise RefusedRequest(f"{FIELD} has the type 'json_schema' and no schema; {ALLOWED}", FIELD)
    raise RefusedRequest(f"{FIELD} is {given!r:.200}; {ALLOWED}", FIELD)
