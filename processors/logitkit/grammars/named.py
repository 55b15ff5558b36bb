"""Grammars that others refer to by name, as in `start: "<call>" @arguments` of Lark's syntax."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from logitkit.errors import ConfigurationError

__all__ = ["NamedGrammar", "named_grammars"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class NamedGrammar(NamedTuple):
    """A grammar with a name.

    Args:
        name: The name, without @.
        kind: "lark" for a grammar in Lark's syntax, "json" for a JSON Schema.
        text: The grammar, or the schema as JSON.
    """

    name: str
    kind: Literal["lark", "json"]
    text: str


def named_grammars(given: Mapping[str, Any] | None) -> tuple[NamedGrammar, ...]:
    """Return the grammars of a mapping in the order of their names.

    Args:
        given: By name, grammars in Lark's syntax as str, and JSON Schemas as dict or bool. None: there are none.

    Raises:
        ConfigurationError: It is not a mapping, or a name or a value in it is not allowed.

    Example:
        >>> named_grammars({"b": True, "a": 'start: "a"'})[0]
        NamedGrammar(name='a', kind='lark', text='start: "a"')
    """
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            f"grammars is of type {type(given).__name__}; give a dict with the grammars by name, as in {{'item': 'start: ...'}}"
        )
    found: list[NamedGrammar] = []
    for name, value in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"grammars has the name {name!r:.60}; a name has letters, digits, _ and -, begins with a letter or _, and stands "
                "without the @ with which a grammar refers to it"
            )
        if isinstance(value, str):
            found.append(NamedGrammar(name, "lark", value))
            continue
        if not isinstance(value, Mapping | bool):
            raise ConfigurationError(
                f"grammars[{name!r}] is of type {type(value).__name__}; allowed are a grammar in Lark's syntax as str, and a "
                "JSON Schema as dict or bool"
            )
        try:
            found.append(NamedGrammar(name, "json", json.dumps(value, allow_nan=False)))
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"grammars[{name!r}] is not JSON: {error}") from None
    return tuple(sorted(found))
