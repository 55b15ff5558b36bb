"""The values that members of arguments may have, for formats in which strings are raw text.

The text of a member stands for a JSON value that is no string, if the schema allows that value there, else for itself. What is
allowed may depend on other members: of `{"kind": "text", "v": str}` and `{"kind": "number", "v": int}`, the text `5` of `v` is
`"5"` or 5. So all members are read together, in each branch of the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, product
from typing import Any

from logitkit.budget import one_budget
from logitkit.errors import LogitkitError
from logitkit.json_schema.conjunction import Conjunction
from logitkit.json_schema.document import load
from logitkit.json_schema.membership import in_order, is_member, satisfies
from logitkit.json_schema.objects import Objects
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.references import References
from logitkit.json_schema.values import Values
from logitkit.languages.language import LANGUAGE_LIMITS
from logitkit.tools.json_values import value_of_text

__all__ = ["MemberValues"]

# In so many ways, at most, the texts of members are read together. The first one is right unless a schema negates something.
MOST_WAYS = 64


class MemberValues:
    """Reads the raw text of members.

    Args:
        schema: The schema of the arguments.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        with one_budget(LANGUAGE_LIMITS.work):
            self._reader = Reader(References.of(load(schema)), LANGUAGE_LIMITS)
            self._root = self._reader.conjunction(self._reader.references.resources[""])
            self._objects = self._reader.values(self._root).objects
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

    def read_alone(self, name: str, text: str) -> Any:
        """Return a value of the right type that a text may stand for, whatever the other members are.

        Raises:
            ValueError: There is none.
        """
        problem = ""
        try:
            value = value_of_text(text)
        except (ValueError, RecursionError) as error:
            value, problem = text, f" ({error})"
        if not isinstance(value, str) and any(_has_type(values, value) for values in self.of(name)):
            return value
        if not self.may_be_string(name):
            raise ValueError(f"{text[:80]!r} is not a value of {name!r}{problem}")
        return text

    def read(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return the values that the texts of all members stand for, so that the schema allows them together if it can.

        Raises:
            ValueError: A text stands for no value of the right type.
        """
        try:
            with one_budget(LANGUAGE_LIMITS.work):
                options = [self._in_branch(objects, texts) for objects in self._objects]
        except (LogitkitError, RecursionError):
            # The schema has no exact form, or the values nest too deeply: then types must do.
            options = []
        found = [option for option in options if option is not None]
        if not found:
            return {name: self.read_alone(name, text) for name, text in texts.items()}
        return max(found, key=lambda values: sum(not isinstance(value, str) for value in values.values()))

    def _in_branch(self, objects: Objects, texts: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the values if the arguments are of one branch of the schema; None if they cannot be."""
        possible = [self._possible(objects.value_of(name), text) for name, text in texts.items()]
        ways = (dict(zip(texts, values, strict=True)) for values in islice(product(*possible), MOST_WAYS))
        return next((way for way in ways if is_member(self._reader, objects, way)), None)

    def _possible(self, conjunction: Conjunction, text: str) -> list[Any]:
        """Return the values that the schema of one member allows; that of JSON first."""
        try:
            value = value_of_text(text)
        except ValueError:
            value = text
        options = [text] if isinstance(value, str) else [value, text]
        return [option for option in options if satisfies(self._reader, conjunction, option)]

    def in_order(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return arguments with the members of all objects in the order in which the constraint allows them."""
        try:
            with one_budget(LANGUAGE_LIMITS.work):
                found: dict[str, Any] = in_order(self._reader, self._root, arguments)
        except (LogitkitError, RecursionError):
            return arguments
        return found


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
