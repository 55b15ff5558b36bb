"""The JSON Schema of configurations."""

from __future__ import annotations

from typing import Any

from logitkit.configuration.registry import CHAIN, installed_kinds

__all__ = ["config_schema"]


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of configurations for `from_config`.

    It cannot express every rule: that a pattern parses, that an id is in the vocabulary, that the order of a chain is valid.

    Returns:
        The schema, with a definition for each kind of processor.

    Example:
        >>> import logitkit as lk
        >>> lk.config_schema()["$defs"]["top_k"]["anyOf"][0]["type"]
        'integer'
    """
    kinds = installed_kinds()
    references = {name: {"$ref": f"#/$defs/{name}"} for name in kinds}
    single = {"type": "object", "properties": references, "additionalProperties": False}
    links = {
        "type": "object",
        "properties": {CHAIN: {"type": "array", "items": {"$ref": "#/$defs/config"}}},
        "required": [CHAIN],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A configuration of logitkit",
        "$ref": "#/$defs/config",
        "$defs": {"config": {"anyOf": [single, links]}} | {name: kind.schema() for name, kind in kinds.items()},
    }
