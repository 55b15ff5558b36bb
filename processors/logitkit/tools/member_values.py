"""The values that members of arguments may have, for formats in which strings are raw text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from logitkit.budget import one_budget
from logitkit.json_schema.document import load
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.references import References
from logitkit.json_schema.values import Values
from logitkit.languages.language import LANGUAGE_LIMITS

__all__ = ["MemberValues"]


class MemberValues:
    """Reads the raw text of members.

    Args:
        schema: The schema of the arguments.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        with one_budget(LANGUAGE_LIMITS.work):
            self._reader = Reader(References.of(load(schema)), LANGUAGE_LIMITS)
            root = self._reader.conjunction(self._reader.references.resources[""])
            self._objects = self._reader.values(root).objects
        self._known: dict[str, list[Values]] = {}

    def of(self, name: str) -> list[Values]:
        """Return the sets of values that a member may have; it may have any of them."""
        if name not in self._known:
            with one_budget(LANGUAGE_LIMITS.work):
                found = [self._reader.values(branch.value_of(name)) for branch in self._objects]
            if len(self._known) > 10_000:
                self._known.clear()
            self._known[name] = found
        return self._known[name]

    def may_be_string(self, name: str) -> bool:
        """Whether a member may be a string."""
        return any(not values.strings.is_empty for values in self.of(name))

    def read(self, name: str, text: str) -> Any:
        """Return the value that a text stands for: JSON if the member may have such a value, else a string.

        Raises:
            ValueError: It is neither.
        """
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
        if not isinstance(value, str) and any(_has_type(values, value) for values in self.of(name)):
            return value
        if not self.may_be_string(name):
            raise ValueError(f"{text[:80]!r} is not a value of {name!r}")
        return text


def _has_type(values: Values, value: Any) -> bool:
    match value:
        case None:
            return values.null
        case bool():
            return value in values.booleans
        case int() | float():
            return not values.numbers.is_empty
        case dict():
            return bool(values.objects)
        case _:
            return bool(values.arrays)
