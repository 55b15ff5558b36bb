"""Where the transform of a response template takes the name and the arguments of a call from, and what JSON has them there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from logitkit.tools.formats.call_ids import ID
from logitkit.tools.response_templates.document import CALLS, Field, not_expressed

__all__ = ["CallShape"]

# The names that lead to a value: of a group or of the parsed text, and of members inside of it.
Path: TypeAlias = "tuple[str, ...]"

_PLACEHOLDER = re.compile(r"\{(\w+(?:\.\w+)*)\}")
_WHOLE = "content"
_WHERE = f"'transform' of the field {CALLS!r}"


@dataclass(frozen=True)
class CallShape:
    r"""Where the parts of a call stand.

    Args:
        group: The group that holds the name; None: the parsed text holds it.
        name: The members that lead to the name.
        arguments: The members that lead to the arguments; none: they are all of the parsed text.
        id: The members that lead to the id; None: there is none.
        is_list: Whether the parsed text is a list of calls.

    Example:
        >>> template = {"type": "function", "function": {"name": "{name}", "arguments": "{content.args}"}}
        >>> from logitkit.tools.response_templates.anchors import pattern_anchor
        >>> field = Field(
        ...     "tool_calls", pattern_anchor(r"<(?P<name>\w+)>", "open"), None, "json", {}, True, None, template
        ... )
        >>> CallShape.of(field).json_parts()
        ('{"args": ', '', '}')
    """

    group: str | None
    name: Path
    arguments: Path
    id: Path | None
    is_list: bool

    @classmethod
    def of(cls, field: Field) -> CallShape:
        """Read a transform.

        Raises:
            ConfigurationError: It takes a part of a call from where no format has it.
        """
        groups = {name for anchor in (field.open, field.close) if anchor is not None for name, _ in anchor.groups}
        is_list = field.is_each or (
            field.transform is None and (not field.repeats or field.parser == "python-call-list")
        )
        if is_list == field.repeats:
            raise not_expressed(
                f"the field {CALLS!r}",
                "makes a list of lists: it 'repeats', and its text is a list"
                if is_list
                else "makes one call, which is not a list: it neither 'repeats' nor has 'transform_each'",
            )
        if field.transform is None:
            found: dict[str, Path] = {"name": ("name",), "arguments": ("arguments",)}
        else:
            found = dict(_parts(field.transform))
            if not field.is_each:
                found = {part: path if path[0] in groups else _inside(part, path) for part, path in found.items()}
        group = found["name"][0] if len(found["name"]) == 1 and found["name"][0] in groups else None
        for part, path in found.items():
            if path and path[0] in groups and (part != "name" or group is None):
                raise not_expressed(_WHERE, f"takes the {part} from the group {path[0]!r}")
        shape = cls(group, () if group else found["name"], found["arguments"], found.get("id"), is_list)
        shape.check(field.parser)
        return shape

    def check(self, parser: str) -> None:
        """Refuse a shape that a parser cannot have."""
        where = _WHERE
        if self.group is None and not self.name:
            raise not_expressed(where, "takes the name from the whole text")
        if self.group is not None and self.is_list:
            raise not_expressed(where, "takes one name for a list of calls")
        if parser == "xml-inline" and (self.group is None or self.arguments or self.id is not None):
            raise not_expressed(where, "does not take the name from a group, and the arguments from the whole text")
        if parser == "python-call-list" and (self.name, self.arguments, self.id) != (("name",), ("arguments",), None):
            raise not_expressed(where, "does not take 'name' and 'arguments' of each call")
        if parser == "json" and self.group is None and self.name[:-1] != self.arguments[:-1]:
            raise not_expressed(where, "takes the name and the arguments from different objects")
        if parser == "json" and not self.arguments and self.group is None:
            raise not_expressed(where, "takes the arguments from the whole text, and the name from inside of it")
        if self.id is not None and (self.group is not None or self.id[:-1] != self.name[:-1]):
            raise not_expressed(where, "takes the id from another object than the name")

    def json_parts(self) -> tuple[str, str, str]:
        """Return the JSON before the name, between it and the arguments, and after them; the first two are one without a name."""
        *outer, last = self.arguments or ("",)
        opened = "".join(f"{{{json.dumps(key)}: " for key in outer)
        if not self.arguments:
            return "", "", ""
        if self.group is not None:
            return f"{opened}{{{json.dumps(last)}: ", "", "}" * len(self.arguments)
        begin = f'{opened}{{{json.dumps(self.name[-1])}: "'
        end = f', {json.dumps(self.id[-1])}: "{ID}"' if self.id is not None else ""
        return begin, f'", {json.dumps(last)}: ', end + "}" * len(self.arguments)


def _parts(transform: Any) -> Iterator[tuple[str, Path]]:
    """Yield the name, the arguments and the id of a call, with the names that lead to each."""
    if not isinstance(transform, Mapping):
        raise not_expressed(_WHERE, "is not an object")
    function = transform.get("function", transform)
    parts = list(_function_parts(function))
    ids = [
        path for holder in (transform, function) if isinstance(holder, Mapping) and (path := _path(holder.get("id")))
    ]
    yield from parts
    yield from [("id", path) for path in ids[:1]]
    known = [path for _, path in parts] + ids[:1]
    known += [] if isinstance(function, Mapping) else [_path(function) or ()]
    for value in _texts(transform):
        if (path := _path(value)) is not None and path not in known:
            raise not_expressed(_WHERE, f"has {value!r} beside the name, the arguments and the id of a call")


def _function_parts(function: Any) -> Iterator[tuple[str, Path]]:
    if isinstance(function, str):
        path = _path(function)
        if path is None:
            raise not_expressed(_WHERE, f"has {function!r} as the function")
        yield "name", (*path, "name")
        yield "arguments", (*path, "arguments")
        return
    if not isinstance(function, Mapping):
        raise not_expressed(_WHERE, "has no object as the function")
    for part in ("name", "arguments"):
        path = _path(function.get(part))
        if path is None:
            raise not_expressed(_WHERE, f"does not take the {part} of a call from its text")
        yield part, path


def _inside(part: str, path: Path) -> Path:
    if path[0] != _WHOLE:
        raise not_expressed(_WHERE, f"takes the {part} from {path[0]!r}, which is not a group")
    return path[1:]


def _path(value: Any) -> Path | None:
    found = _PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
    return None if found is None else tuple(found[1].split("."))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inside in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inside)
