"""Typed dicts of `typing`, which pydantic does not read before Python 3.12, rewritten as those of `typing_extensions`."""

from __future__ import annotations

import dataclasses
import functools
import operator
import sys
import types
import typing
from typing import Any

import typing_extensions


def supported(given: Any) -> Any:
    """Return a type that pydantic reads and whose JSON has the same form.

    A dataclass with typed dicts becomes a typed dict, too. Those in other classes, such as named tuples, are not replaced.
    """
    if sys.version_info >= (3, 12):
        return given
    try:
        return _replaced(given, {})
    except NameError:  # a class inside a function, whose names pydantic may find
        return given


def _replaced(given: Any, known: dict[Any, Any]) -> Any:
    if typing.is_typeddict(given):
        required = given.__required_keys__
        return _typed_dict(given, [(name, name in required) for name in given.__annotations__], known)
    if _is_dataclass(given) and _needs_replacing(given, set()):
        none = dataclasses.MISSING
        fields = [
            (f.name, f.default is none and f.default_factory is none) for f in dataclasses.fields(given) if f.init
        ]
        return _typed_dict(given, fields, known)
    arguments = typing.get_args(given)
    changed = tuple([_replaced(argument, known) for argument in arguments])
    if changed == arguments:
        return given
    if isinstance(given, types.UnionType):
        return functools.reduce(operator.or_, changed)
    if isinstance(given, types.GenericAlias):
        origin: Any = given.__origin__
        return types.GenericAlias(origin, changed)
    return given.copy_with(changed[: len(given.__args__)])


def _is_dataclass(given: Any) -> bool:
    return isinstance(given, type) and dataclasses.is_dataclass(given) and not hasattr(given, "__pydantic_fields__")


def _needs_replacing(given: Any, seen: set[Any]) -> bool:
    """Whether a typed dict is found in a type, or in the dataclasses in it."""
    if typing.is_typeddict(given):
        return True
    inside = typing.get_args(given)
    if _is_dataclass(given) and given not in seen:
        seen.add(given)
        inside = tuple(typing.get_type_hints(given).values())
    return any(_needs_replacing(part, seen) for part in inside)


def _typed_dict(given: Any, members: list[tuple[str, bool]], known: dict[Any, Any]) -> Any:
    """Return a typed dict with the members of a class, of which those marked true are required."""
    if given not in known:
        made: Any = typing_extensions.TypedDict(given.__name__, {})  # type: ignore[misc]  # the name is not that of a variable
        # Known before its members are, which may be of the same type.
        known[given] = made
        made.__module__, made.__doc__ = given.__module__, given.__doc__
        hints = typing.get_type_hints(given, include_extras=True)
        made.__annotations__ = {name: _member(hints[name], required, known) for name, required in members}
        for name in {"__pydantic_config__"} & vars(given).keys():
            setattr(made, name, getattr(given, name))
    return known[given]


def _member(hint: Any, required: bool, known: dict[Any, Any]) -> Any:
    """Return the annotation of a member; `required` holds if the hint does not say."""
    qualifier = typing.get_origin(hint)
    if qualifier in (typing.Required, typing.NotRequired):
        return qualifier[_replaced(typing.get_args(hint)[0], known)]
    return (typing.Required if required else typing.NotRequired)[_replaced(hint, known)]
