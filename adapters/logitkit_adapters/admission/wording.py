"""Refusals in the words of a client: JSON in place of Python, and the right form in place of another interface's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from logitkit.configuration import installed_kinds

__all__ = ["in_json"]

# Arguments of Python as members of a configuration, and limits as settings of the operator.
LIMIT = re.compile(
    r"(?:or pass |or )?(?:more with a larger )?limits=Limits\((states|work)=\.\.\.\)(?: with a larger number)?"
)
ARGUMENT = re.compile(r"\b(?:pass )?([a-z_]+)=('[^']*'|True|False|\.\.\.)")

# The argument of `JsonSchema` that is a member of a configuration too.
RESOURCES = re.compile(r"pass JsonSchema\(\.\.\., resources=\{('[^']*'|\"[^\"]*\"): schema\}\)")

# Other words of Python, as they stand at the end of a message.
PHRASES = {
    "a dict, a bool, JSON text, a pydantic model class or a Python type such as list[int]": "the schema as JSON",
    "and ToolFormat(...)": "or an object with the data of a format",
}

# Messages that name the classes of processors, possibly with their arguments; they quote nothing that was given.
OF_CLASSES = re.compile(r"all constraints of the chain \(|comes after \w+, but requests|has the constraint \w+ after ")
CLASS = re.compile(r"\b([A-Z]\w+)(?:\([a-z]\w*=[^()]*\))?")

# Constraints that belong to no kind.
OTHER_CLASSES = {"Intersection": "a constraint", "BannedSequences": "bad_words"}

# Fields of vLLM's own structured outputs, by the kind that does the same.
FIELDS_OF_VLLM = {
    "guided_json": "json_schema",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
    "json": "json_schema",
    "structured_outputs": "json_schema, regex, choice, grammar or structural_tag",
}

# A configuration with one of these keys, and without a kind, may be a schema.
SCHEMA_KEYS = frozenset({"$schema", "$ref", "$defs", "type", "properties", "anyOf", "oneOf", "allOf", "enum", "const"})

SCHEMA_INSIDE = 'give the schema alone: "json_schema": response_format["json_schema"]["schema"]'


def in_json(message: str, config: object, prefix: str) -> str:
    """Return the message of an error in a configuration for a client that writes JSON.

    Args:
        message: The message.
        config: The configuration.
        prefix: The prefix of the variables in which the operator sets limits.
    """
    message = LIMIT.sub(lambda found: f"or ask the operator for a larger {prefix}MAX_{found[1].upper()}", message)
    if OF_CLASSES.search(message):
        named = {getattr(kind.made, "__name__", ""): kind.name for kind in installed_kinds().values()} | OTHER_CLASSES
        message = CLASS.sub(lambda found: named.get(found[1], found[0]), message)
    for python, ours in PHRASES.items():
        if message.endswith(python):
            message = message.removesuffix(python) + ours
    message = RESOURCES.sub(lambda found: f'give "resources": {{{_value(found[1])}: ...}} beside the schema', message)
    message = ARGUMENT.sub(lambda found: f'"{found[1]}": {_value(found[2])}', message)
    hint = _hint(config) if isinstance(config, Mapping) else None
    return message if hint is None else f"{message}. To correct it, {hint}"


def _value(python: str) -> str:
    return python.lower() if python in ("True", "False") else python.replace("'", '"')


def _hint(config: Mapping[str, Any]) -> str | None:
    """Return what to send in place of a configuration that has the form of another interface."""
    kinds = installed_kinds()
    if kinds.keys().isdisjoint(config) and (bare := _hint_without_kind(config)):
        return bare
    for name, value in config.items():
        if name == "response_format":
            return SCHEMA_INSIDE
        if name in FIELDS_OF_VLLM:
            return f"name the processor in place of {name!r}: {FIELDS_OF_VLLM[name]}"
        if name == "json_schema" and _is_response_format(value):
            return SCHEMA_INSIDE
        if name == "tools" and _is_tool(value):
            return 'put the tool into a list: "tools": [{"type": "function", "function": ...}]'
        if isinstance(value, str) and value.lstrip()[:1] in ("[", "{") and name in ("tools", "choice", "dfa"):
            return f"give the value of {name!r} as JSON, not as text; only the whole configuration is a string"
    for name in config:
        # Parameters of a kind beside it, such as {"tools": [...], "format": "hermes"}.
        owner = next((kinds[kind] for kind in config if kind in kinds and name in kinds[kind].parameters), None)
        if name not in kinds and owner is not None:
            inside = f'{{"{owner.main}": ..., "{name}": ...}}' if owner.main else f'{{"{name}": ...}}'
            return f'put {name!r} inside: "{owner.name}": {inside}'
    return None


def _hint_without_kind(config: Mapping[str, Any]) -> str | None:
    """Return what to send in place of a tool, a structural tag or a schema that stands alone."""
    if config.get("type") == "structural_tag":
        return 'put the structural tag into "structural_tag": {"structural_tag": {"type": "structural_tag", ...}}'
    if _is_tool(config):
        return 'put the tool into a list of "tools": {"tools": [{"type": "function", "function": ...}]}'
    if not SCHEMA_KEYS.isdisjoint(config):
        return 'put the schema into "json_schema": {"json_schema": {"type": ...}}'
    return None


def _is_response_format(value: object) -> bool:
    """Whether a value is a response format, or its member `json_schema`, in place of the schema in it."""
    if not isinstance(value, Mapping):
        return False
    inner = value.get("schema")
    if isinstance(value.get("json_schema"), Mapping) or ("name" in value and isinstance(inner, Mapping)):
        return True
    return _is_response_format(inner)


def _is_tool(value: object) -> bool:
    """Whether a value is one tool in place of a list of tools."""
    if not isinstance(value, Mapping):
        return False
    return isinstance(value.get("function"), Mapping) or "name" in value or _is_tool(value.get("tools"))
