"""The types that a model is asked to write, in every engine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pydantic

import logitkit as lk
from tests.output_types.types import TYPES, Written

PATTERN = re.compile("[0-9]{1,3}\\.[0-9]{2} euros?")


def rain(days: Literal[1, 2, 3]) -> str:
    """Tell the weather."""
    return f"Rain in {days} days."


TOOLS = lk.Tools([rain], format="hermes", choice="required", parallel=False)


@dataclass(frozen=True)
class Case:
    """A type.

    Args:
        given: The type.
        is_value: Whether a value is one of the type.
        read: Reads the text independently; None if only tokens can be read.
    """

    given: Any
    is_value: Callable[[Any], bool]
    read: Callable[[str], Any] | None


def _of_type(written: Written) -> Case:
    if isinstance(written.given, dict):
        return Case(written.given, lambda value: [*value] == ["n"] and isinstance(value["n"], int), json.loads)
    given = written.given
    adapter = given if isinstance(given, pydantic.TypeAdapter) else pydantic.TypeAdapter(given)

    def is_value(value: Any) -> bool:
        return bool(adapter.validate_python(value, strict=True) == value)

    return Case(given, is_value, adapter.validate_json)


def _is_call(turn: Any) -> bool:
    return bool(turn.complete) and [(call.name, [*call.arguments]) for call in turn.calls] == [("rain", ["days"])]


CASES = {
    **{name: _of_type(written) for name, written in TYPES.items()},
    "pattern": Case(PATTERN, lambda value: PATTERN.fullmatch(value) is not None, str),
    "tools": Case(TOOLS, _is_call, None),
    "language": Case(
        lk.languages.regex("(yes|no), [a-z]+"), lambda value: re.fullmatch("(yes|no), [a-z]+", value) is not None, str
    ),
}
