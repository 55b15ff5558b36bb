"""Close the objects in the schema of a type, so that a model writes the members of the type and no others."""

from __future__ import annotations

from typing import Any

from logitkit.json_schema.subschemas import replaced

__all__ = ["closed_objects"]

# The keywords of schemas that pydantic writes whose values are schemas, or hold them.
HOLDERS = {"$defs", "properties", "patternProperties", "items", "prefixItems", "anyOf", "oneOf", "additionalProperties"}
# Beside these, other members may be described elsewhere.
COMPOSED = {"additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref"}


def closed_objects(schema: Any) -> Any:
    """Return a schema in which objects have no other members than those that they name, unless the schema says otherwise.

    A model, a dataclass or a typed dict drops the other members that it reads, so the value stays the same.

    Args:
        schema: The schema of a type, as plain values.

    Example:
        >>> closed_objects({"type": "object", "properties": {"n": {"type": "integer"}}})["additionalProperties"]
        False
    """
    if not isinstance(schema, dict):
        return schema
    found = replaced(schema, closed_objects, HOLDERS)
    return found if "properties" not in found or COMPOSED & found.keys() else {**found, "additionalProperties": False}
