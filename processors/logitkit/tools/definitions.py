"""Tools as data: a name, a description, and the schema of the arguments."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.document import key_of, load
from logitkit.json_schema.python_types import schema_of
from logitkit.languages.grammars import GrammarText
from logitkit.tools.custom_tools import custom_input
from logitkit.tools.functions import described, parameters_of, without_titles
from logitkit.tools.tool_results import RETURN_KEYS, declared_result, with_schema_of_result

__all__ = ["MOST_TOOLS", "ToolDefinition", "definitions_of"]

# More are refused at once, rather than after seconds of work.
MOST_TOOLS = 2000

_NAME = re.compile(r"[\w.:/-]{1,128}")
# Other names for the parameters, as in 'input_schema', or parts of them, which would otherwise be ignored: a tool without
# parameters takes none.
_SCHEMA_KEY = re.compile(".*(schema|param|arg).*|inputs?|properties|required", re.IGNORECASE)
# Keywords that say themselves which other members there may be, or refer to what does.
_OPEN = {
    *("additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames"),
    *("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "not", "dependentSchemas", "dependencies"),
}
_ALLOWED = (
    "a function with annotations, a pydantic model, a dataclass, and a dict such as "
    '{"type": "function", "function": {"name": ..., "parameters": ...}} or '
    '{"type": "custom", "custom": {"name": ..., "format": ...}}'
)


@dataclass(frozen=True)
class ToolDefinition:
    """A tool.

    Args:
        name: Its name.
        description: A text about the tool; may be empty.
        parameters: The schema of its arguments, an object, as a chat template shows it.
        given: The dict that the user gave, if that is what it was given as.
        grammar: The grammar of the one argument of a custom tool; None: `parameters` says all.
        returns: The declared type or schema of its results; None: none is declared.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(compare=False)
    given: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    grammar: GrammarText | None = None
    returns: Any = field(default=None, compare=False, repr=False)
    content: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", key_of(load(self.parameters)))

    @property
    def schema(self) -> dict[str, Any]:
        """The schema that the arguments satisfy. A schema that does not mention other members allows no others."""
        closed = {} if _OPEN & self.parameters.keys() else {"additionalProperties": False}
        return {**self.parameters, "type": "object", **closed}

    @property
    def is_custom(self) -> bool:
        """Whether it is a custom tool of OpenAI: one argument, a text."""
        return self.given is not None and self.given.get("type") == "custom"

    def openai(self) -> dict[str, Any]:
        """Return the tool as OpenAI's dict."""
        return dict(self.given) if self.given is not None and self.is_custom else self.function()

    def function(self) -> dict[str, Any]:
        """Return the tool as OpenAI's dict of a function, which is what chat templates know, even if it is a custom tool."""
        if self.given is not None and "function" in self.given:
            return dict(self.given)
        if self.given is not None and not self.is_custom:
            return {"type": "function", "function": {k: v for k, v in self.given.items() if k != "type"}}
        described_as = {"description": self.description} if self.description else {}
        return {
            "type": "function",
            "function": {"name": self.name, **described_as, "parameters": dict(self.parameters)},
        }


def definitions_of(given: Iterable[object]) -> tuple[ToolDefinition, ...]:
    """Return tools as data.

    Raises:
        ConfigurationError: There are none, or too many; one is not a tool; or a name is empty, not allowed, or given twice.
        UnsupportedSchema: A schema is too large, or nested too deeply.
    """
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise ConfigurationError(f"tools is of type {type(given).__name__}; allowed is a list; each tool is {_ALLOWED}")
    tools = list(given)
    if not tools:
        raise ConfigurationError("tools is empty; give at least one tool")
    if len(tools) > MOST_TOOLS:
        raise ConfigurationError(f"there are {len(tools)} tools; allowed are at most {MOST_TOOLS}")
    found: dict[str, ToolDefinition] = {}
    for number, tool in enumerate(tools):
        definition = _definition(tool, f"tools[{number}]")
        if definition.name in found:
            raise ConfigurationError(f"two tools have the name {definition.name!r}; each needs a name of its own")
        found[definition.name] = definition
    return tuple(found.values())


def _definition(tool: object, place: str) -> ToolDefinition:
    if isinstance(tool, ToolDefinition):
        return tool
    if isinstance(tool, Mapping):
        return _of_dict(tool, place)
    if isinstance(tool, type) and (dataclasses.is_dataclass(tool) or hasattr(tool, "model_json_schema")):
        schema = schema_of(tool)
        text, about = described(tool.__dict__.get("__doc__"))
        # A dataclass without a docstring has its signature as one.
        text = "" if dataclasses.is_dataclass(tool) and text.startswith(f"{tool.__name__}(") else text
        return ToolDefinition(_checked(tool.__name__, place), text, _with_descriptions(without_titles(schema), about))
    if inspect.isroutine(tool) or (callable(tool) and not isinstance(tool, type) and hasattr(tool, "__name__")):
        name = _checked(getattr(tool, "__name__", ""), place)
        description, parameters, returns = parameters_of(tool, name)
        return ToolDefinition(name, description, parameters, returns=returns)
    raise ConfigurationError(f"{place} is {tool!r} of type {type(tool).__name__}; allowed are {_ALLOWED}")


def _of_dict(given: Mapping[Any, Any], place: str) -> ToolDefinition:
    tool: Any = given
    is_custom = given.get("type") == "custom"
    if is_custom and "custom" in given:
        tool, place = given["custom"], f"{place}['custom']"
    elif given.get("type", "function") != "function" and (
        "function" in given or not (is_custom or "parameters" in given)
    ):
        # Such as a provider's own search, which names no parameters.
        raise ConfigurationError(f"{place} has the type {given['type']!r}; allowed are 'function' and 'custom'")
    elif "function" in given:
        tool, place = given["function"], f"{place}['function']"
    if not isinstance(tool, Mapping) or "name" not in tool:
        raise ConfigurationError(f"{place} has no 'name'; allowed are {_ALLOWED}")
    name, about = _checked(tool["name"], place), tool.get("description")
    if not isinstance(about, str | None):
        raise ConfigurationError(f"the description of the tool {name!r} is {about!r}; allowed is text")
    if is_custom:
        schema, more, rules = custom_input(tool, place)
        return ToolDefinition(name, "\n".join(filter(None, (about, more))), schema, given, rules)
    parameters, returns = _parameters(tool, name), declared_result(tool, name)
    # Chat templates and configurations get the schemas of types.
    changed = with_schema_of_result(tool)
    if not isinstance(tool.get("parameters"), Mapping | str | None):
        changed = {**changed, "parameters": parameters}
    if changed is not tool:
        given = {**given, "function": changed} if "function" in given else changed
    return ToolDefinition(name, about or "", parameters, given, returns=returns)


def _parameters(tool: Mapping[Any, Any], name: str) -> dict[str, Any]:
    """Return the schema of the arguments of a function."""
    parameters = tool.get("parameters")
    if parameters is None:
        other = next(
            (
                key
                for key in tool
                if isinstance(key, str)
                and _SCHEMA_KEY.fullmatch(key)
                and tool[key] != []
                and key not in ("parameters", *RETURN_KEYS)
            ),
            None,
        )
        if other is not None:
            raise ConfigurationError(
                f"the tool {name!r} has no 'parameters', but {other!r}; give the schema of its arguments as 'parameters', as in "
                "OpenAI's dicts"
            )
        parameters = {"type": "object", "properties": {}}
    try:
        loaded = load(parameters)
    except UnsupportedSchema:
        raise
    except ConfigurationError as error:
        raise ConfigurationError(f"the parameters of the tool {name!r}: {error}") from None
    kind = loaded.get("type", "object") if isinstance(loaded, dict) else "object"
    if kind != "object":
        raise ConfigurationError(
            f"'type' of the parameters of the tool {name!r} is {kind!r}; allowed is 'object', as in "
            '{"type": "object", "properties": {...}}'
        )
    if not isinstance(loaded, dict):
        raise ConfigurationError(
            f"the parameters of the tool {name!r} are {str(parameters)[:200]}; allowed is the schema of an object, "
            '{"type": "object", "properties": {...}}'
        )
    _check_required(loaded, name)
    return loaded


def _check_required(parameters: dict[str, Any], name: str) -> None:
    """Refuse a required member that no other member of the schema mentions: no other members are allowed then."""
    required, properties = parameters.get("required"), parameters.get("properties", {})
    if _OPEN & parameters.keys() or not isinstance(required, list) or not isinstance(properties, dict):
        return
    missing = next((member for member in required if isinstance(member, str) and member not in properties), None)
    if missing is not None:
        raise ConfigurationError(
            f"the tool {name!r} requires {missing!r}, which its 'properties' do not have; add it there, or leave it out of "
            "'required'"
        )


def _with_descriptions(schema: dict[str, Any], about: Mapping[str, str]) -> dict[str, Any]:
    properties = {
        name: {**member, "description": about[name]}
        if name in about and isinstance(member, dict) and "description" not in member
        else member
        for name, member in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties}


def _checked(name: object, place: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"the name of {place} is {name!r}; allowed are 1 to 128 letters, digits and characters of '_-.:/', so that a name "
            "cannot be taken for markup"
        )
    return name
