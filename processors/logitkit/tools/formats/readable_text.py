"""Names and texts that another parser of a format can read: names match its pattern, and texts lack its markers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from logitkit.errors import ConfigurationError
from logitkit.languages.language import LANGUAGE_LIMITS
from logitkit.languages.raw_strings import names_matching, raw_texts

if TYPE_CHECKING:
    from logitkit.tools.definitions import ToolDefinition
    from logitkit.tools.formats.tool_format import ToolFormat

__all__ = ["check_names", "check_texts"]


# The keywords with names of members, as keys or in lists.
_NAMING = ("properties", "required", "dependentRequired", "dependentSchemas", "dependencies")


def check_names(tools: Iterable[ToolDefinition], form: ToolFormat) -> None:
    """Refuse tools whose names, or those of their arguments, another parser of a format would misread.

    Raises:
        ConfigurationError: The name of a tool does not match `names`, or a name contains one of `free_of` or the delimiter of
            strings.
    """
    if form.names is None and not form.excluded_texts:
        return
    allowed = None if form.names is None else names_matching(form.names)
    for tool in tools:
        if allowed is not None and not allowed.contains(tool.name):
            raise ConfigurationError(
                f"the name of the tool {tool.name!r} does not match {form.names!r}, as names have to in the format "
                f"{form.name!r}; rename the tool, or use another format"
            )
        for marker in form.excluded_texts:
            name = next((name for name in (tool.name, *_names(tool.schema)) if marker in name), None)
            if name is not None:
                raise ConfigurationError(
                    f"the tool {tool.name!r} has the name {name!r}, which contains {marker!r}; the format {form.name!r} does not "
                    "allow it in a name; use another name, or another format"
                )


def _names(schema: Any) -> Iterable[str]:
    """Return the names of members in a schema, however deep."""
    found: list[str] = []
    todo = [schema]
    while todo:
        item = todo.pop()
        if isinstance(item, Mapping):
            for keyword in _NAMING:
                found += (
                    _texts(item[keyword]) if keyword in ("required", "dependentRequired") and keyword in item else ()
                )
                found += [name for name in _keys(item.get(keyword)) if isinstance(name, str)]
            todo += item.values()
        elif isinstance(item, list):
            todo += item
    return found


def _keys(value: Any) -> Iterable[Any]:
    return value.keys() if isinstance(value, Mapping) else ()


def check_texts(tool: str, arguments: dict[str, Any], form: ToolFormat) -> None:
    """Refuse arguments that the constraint of a format does not allow to be written.

    Raises:
        ConfigurationError: A text contains one of `free_of` or the delimiter of strings; or, in XML, a name does not match
            `parameter_names`, or a string is not one of `raw_strings`.
    """
    for text in _texts(arguments):
        for marker in form.excluded_texts:
            if marker in text:
                raise ConfigurationError(
                    f"the arguments of {tool!r} contain {marker!r}, which the format {form.name!r} does not allow in a text"
                )
    if form.arguments != "xml":
        return
    raw = raw_texts(form.parameter_ends.marker, form.raw_strings, False, LANGUAGE_LIMITS)
    for name, value in arguments.items():
        pattern = form.parameter_names
        if pattern is not None and not names_matching(pattern).contains(name):
            raise ConfigurationError(f"the name {name!r} does not match {form.parameter_names!r}, as names have to")
        if form.raw_strings != "any" and isinstance(value, str) and not raw.contains(value):
            what = "has white space at its ends" if value != value.strip() else "would be read as JSON"
            raise ConfigurationError(
                f"the string {value[:80]!r} of {name!r} cannot be written in the format {form.name!r}: it {what}"
            )


def _texts(value: Any) -> Iterable[str]:
    """Return all strings and names of members in a value."""
    found, todo = [], [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, Mapping):
            todo += [*item, *item.values()]
        elif isinstance(item, list):
            todo += item
    return found
