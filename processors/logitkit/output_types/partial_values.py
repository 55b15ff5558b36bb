r"""The value that a JSON text stands for before it is complete, for programs that show it while it is written.

By hand: of `{"city": "Bo`, the value so far is `{"city": "Bo"}`. Of `{"city": "Bonn", "da`, it is `{"city": "Bonn"}`: half of a
name is left out. So are a number at the end, which may have more digits, half of `true`, and half of an escape such as `\u00e`.

Invariant: a member or item that has been shown is shown again with the next piece of text, with the same value, or with a longer
one if it is a string, an array or an object.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Mapping
from typing import Any

__all__ = ["partial_json", "partial_value"]

_PART = re.compile(r'[\s,:]+|[{}\[\]]|"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null', re.DOTALL)
# The beginning of a string without half of an escape, or half of two escapes that stand for one character.
_BEGINNING = re.compile(
    r'"(?:[^"\\]|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4})*', re.DOTALL
)
_UNIONS = (typing.Union, types.UnionType)
# Types that are neither an object nor an array in JSON.
_SCALARS = (str, bytes, int, float, bool, type(None), typing.Literal)


def partial_json(text: str) -> Any:
    """Return the value of the beginning of a JSON text.

    Args:
        text: The beginning of the text, or all of it.

    Returns:
        The value so far; None if no value has begun.

    Example:
        >>> partial_json('{"city": "Bonn", "days": [1, 2')
        {'city': 'Bonn', 'days': [1]}
    """
    building, at = _Building(), 0
    while (found := _PART.match(text, at)) is not None:
        part, at = found.group(), found.end()
        if part[0] in "-0123456789" and at == len(text):
            # It may have more digits.
            break
        building.add(part)
    begun = _BEGINNING.match(text, at)
    if begun is not None and not building.awaits_name:
        building.place(_read(begun.group() + '"'))
    return building.root


class _Building:
    """The value that is built from the parts of a text, with the arrays and objects that are still open."""

    def __init__(self) -> None:
        self.root: Any = None
        # Each with the name of the member that is being written.
        self._open: list[tuple[Any, list[str]]] = []

    @property
    def awaits_name(self) -> bool:
        """Whether a string would be the name of a member."""
        return bool(self._open) and isinstance(self._open[-1][0], dict) and not self._open[-1][1]

    def add(self, part: str) -> None:
        """Add a bracket, a name, a value, or what stands between them."""
        if part in ("{", "["):
            value: Any = {} if part == "{" else []
            self.place(value)
            self._open.append((value, []))
        elif part in ("}", "]"):
            del self._open[-1:]
        elif self.awaits_name and part[0] == '"':
            self._open[-1][1].append(_read(part))
        elif not part.strip(" \t\r\n,:"):
            return
        else:
            self.place(_read(part))

    def place(self, value: Any) -> None:
        """Put a value where the text has come to."""
        if not self._open:
            self.root = value
            return
        inside, name = self._open[-1]
        if isinstance(inside, list):
            inside.append(value)
        elif name:
            inside[name.pop()] = value


def _read(part: str) -> Any:
    """Return the value of a string, number or literal, or its text if Python does not read it."""
    try:
        return json.loads(part)
    except ValueError:
        return part


def partial_value(text: str, kind: Any) -> Any:
    """Return the value of the beginning of a JSON text, as far as it is known, for a type.

    Args:
        text: The beginning of the text.
        kind: The type. For a pydantic model, the value is an instance in which members that have not been written have their
            defaults or None, and no validator has run. For other types, it is plain data.

    Example:
        >>> from pydantic import BaseModel
        >>> class Trip(BaseModel):
        ...     city: str
        ...     days: int
        >>> partial_value('{"city": "Bo', Trip)
        Trip(city='Bo', days=None)
    """
    data = partial_json(text)
    try:
        return _instance(kind, data)
    except RecursionError:
        # Models inside of each other are as deep as the text.
        return data


def _instance(kind: Any, data: Any) -> Any:
    """Return data with instances of the models in a type."""
    if isinstance(data, Mapping) and _is_model(kind):
        return _model(kind, data)
    arguments, origin = typing.get_args(kind), typing.get_origin(kind)
    if origin is typing.Annotated:
        return _instance(arguments[0], data)
    if origin in _UNIONS:
        # Of several types that are objects or arrays it is not clear yet which one is written.
        found = [one for one in arguments if _may_be(one, data)]
        return _instance(found[0], data) if len(found) == 1 else data
    if origin in (list, tuple) and isinstance(data, list) and arguments:
        if origin is tuple and arguments[-1:] != (...,):
            return [_instance(one, item) for one, item in zip(arguments, data, strict=False)]
        return [_instance(arguments[0], item) for item in data]
    if origin is dict and isinstance(data, dict) and arguments:
        return {name: _instance(arguments[1], value) for name, value in data.items()}
    return data


def _may_be(kind: Any, data: Any) -> bool:
    """Whether data may be of a type, as far as it is clear that the type is an object, an array or neither in JSON."""
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    origin = typing.get_origin(kind) or kind
    if _is_model(kind) or origin is dict:
        return isinstance(data, Mapping)
    if origin in (list, tuple, set, frozenset):
        return isinstance(data, list)
    return not (origin in _SCALARS and isinstance(data, (Mapping, list)))


def _is_model(kind: Any) -> bool:
    """Whether a type is a model of pydantic that is an object in JSON."""
    return (
        isinstance(kind, type) and hasattr(kind, "model_fields") and not getattr(kind, "__pydantic_root_model__", False)
    )


def _model(kind: Any, data: Mapping[str, Any]) -> Any:
    """Return an instance of a model; no `model_post_init` runs, which might not expect that members are missing."""
    values: dict[str, Any] = {}
    read: set[str] = set()
    keys = {name: _keys(name, field) for name, field in kind.model_fields.items()}
    aliases = {key for name, names in keys.items() for key in names if key != name}
    used: set[str] = set()
    for name, field in kind.model_fields.items():
        key = next((key for key in keys[name] if key in data and (key != name or key not in aliases)), None)
        if key is None:
            values[name] = _default(field)
            continue
        values[name] = _instance(field.annotation, data[key])
        read.add(name)
        used.add(key)
    made = kind.__new__(kind)
    private = {name: _default(attribute) for name, attribute in kind.__private_attributes__.items()}
    others = {name: value for name, value in data.items() if name not in used}
    for name, value in (
        ("__dict__", values),
        ("__pydantic_fields_set__", read),
        ("__pydantic_extra__", others if kind.model_config.get("extra") == "allow" else None),
        ("__pydantic_private__", private or None),
    ):
        object.__setattr__(made, name, value)
    return made


def _keys(name: str, field: Any) -> list[str]:
    """Return the names that a member may have in JSON."""
    alias = field.validation_alias or field.alias
    aliases = getattr(alias, "choices", (alias,))
    return [*[one for one in aliases if isinstance(one, str)], name]


def _default(field: Any) -> Any:
    """Return the default of a field or private attribute that has not been written, or None if it has no default."""
    try:
        found = field.get_default(call_default_factory=True) if hasattr(field, "is_required") else field.get_default()
    except Exception:  # noqa: BLE001
        # A factory may read other fields.
        return None
    return None if type(found).__name__ == "PydanticUndefinedType" else found
