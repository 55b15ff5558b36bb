"""The values that members of arguments may have, for formats in which strings are raw text.

If the text of a member is JSON, other than a string, and the schema allows that value, it stands for the value, else for itself.
The values may depend on other members: of `{"kind": "text", "v": str}` and `{"kind": "number", "v": int}`, the text `5` of
`v` is `"5"` or 5. So all members are read together, in each branch of the schema.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice, product
from typing import Any

from logitkit.budget import one_budget
from logitkit.errors import LogitkitError
from logitkit.json_schema.document import load
from logitkit.json_schema.layout import MemberOrder
from logitkit.json_schema.membership import Membership
from logitkit.json_schema.objects import Objects
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.references import References
from logitkit.json_schema.string_spellings import StringSpelling
from logitkit.json_schema.values import Values
from logitkit.languages.cdata import section_text
from logitkit.languages.language import LANGUAGE_LIMITS
from logitkit.tools.json_values import NumberTooLarge, value_of_text

__all__ = ["MemberValues", "StringText", "member_text", "reading"]

# How many combinations of readings are tried. The first one is right, unless the schema negates something.
MOST_WAYS = 64


# A reader keeps track of the schema that it is reading, so only one thread at a time may use it.
_lock = threading.RLock()


class StringText(str):
    """The text of a member that is a string, whatever else it could be read as."""

    __slots__ = ()


def member_text(written: str, cdata: tuple[str, ...]) -> str:
    """Return the text of a member; if the format has CDATA sections and it stands in one, the string in it."""
    inside = section_text(written) if cdata else None
    return written if inside is None else StringText(inside)


@contextmanager
def reading(work: int = LANGUAGE_LIMITS.work) -> Iterator[None]:
    """Let no other thread read schemas in this block, in which some steps of work may be done."""
    with _lock, one_budget(work):
        yield


class MemberValues:
    """Reads the raw text of members.

    Args:
        schema: The schema of the arguments.
        literals: How a value that is true, false or null is written, as in `ToolFormat`.
        strings: How strings are written in arrays and objects, as in `ToolFormat`.
    """

    def __init__(self, schema: Mapping[str, Any], literals: str = "json", strings: StringSpelling = "json") -> None:
        self._literals, self._strings = literals, strings
        with reading():
            self._reader = Reader(References.of(load(schema)), LANGUAGE_LIMITS)
            self._root = self._reader.conjunction(self._reader.references.resources[""])
            self._objects = self._reader.values(self._root).objects
        self._known: dict[str, list[Values]] = {}

    def of(self, name: str) -> list[Values]:
        """Return the sets of values that a member may have; it may have any of them."""
        if name not in self._known:
            with reading():
                found = [self._reader.values(branch.value_of(name)) for branch in self._objects]
            if len(self._known) > 10_000:
                self._known.clear()
            self._known[name] = found
        return self._known[name]

    def may_be_string(self, name: str) -> bool:
        """Whether a member may be a string."""
        return any(not values.strings.is_empty for values in self.of(name))

    def takes_any_text(self, name: str) -> bool:
        """Whether a member may be any string."""
        return all(values.strings.key == self._reader.everything.strings.key for values in self.of(name))

    def read_alone(self, name: str, text: str) -> Any:
        """Return a value of the right type that a text may stand for, whatever the other members are.

        Raises:
            ValueError: The text stands for no value that the schema could allow.
        """
        is_string = self.may_be_string(name)
        if isinstance(text, StringText) and is_string:
            return str(text)
        try:
            value = value_of_text(text, self._literals, self._strings)
        except NumberTooLarge as error:
            if not is_string or not any(values.strings.contains(text) for values in self.of(name)):
                raise ValueError(f"{text[:80]!r} of {name!r} cannot be read: {error}") from error
            value = text
        except (ValueError, RecursionError):
            value = text
        if not isinstance(value, str) and any(_has_type(values, value) for values in self.of(name)):
            return value
        if not is_string:
            raise ValueError(f"{text[:80]!r} is not a value of {name!r}")
        return text

    def read(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return the values that the texts of all members stand for, so that the schema allows them together if it can.

        Raises:
            ValueError: A text stands for no value of the right type.
        """
        alone = {name: self.read_alone(name, text) for name, text in texts.items()}
        try:
            with reading():
                judge = Membership(self._reader)
                options = [self._in_branch(judge, objects, texts, alone) for objects in self._objects]
        except (LogitkitError, RecursionError):
            # The schema cannot be enforced exactly, or judging the values is too much work: then only types are compared.
            return alone
        found = [option for option in options if option is not None]
        return max(found, key=lambda way: sum(not isinstance(value, str) for value in way.values()), default=alone)

    def _in_branch(
        self, judge: Membership, objects: Objects, texts: Mapping[str, str], alone: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Return the values if the arguments are of one branch of the schema; None if they cannot be."""
        is_only = len(self._objects) == 1
        possible: dict[str, list[Any]] = {}
        for name, text in texts.items():
            options = [alone[name]] if isinstance(alone[name], str) else [alone[name], text]
            if is_only and (len(options) == 1 or not self.may_be_string(name)):
                # Nothing else can be meant.
                possible[name] = options[:1]
            else:
                possible[name] = [option for option in options if judge.satisfies(objects.value_of(name), option)]
        if not all(possible.values()):
            return None
        if is_only and all(len(options) == 1 for options in possible.values()):
            return {name: options[0] for name, options in possible.items()}
        return next((way for way in _ways(possible) if judge.is_member(objects, way)), None)

    def in_order(self, arguments: dict[str, Any], order: MemberOrder = "schema") -> dict[str, Any]:
        """Return arguments with the members of all objects in the order in which the constraint allows them."""
        try:
            with reading():
                found: dict[str, Any] = Membership(self._reader).in_order(self._root, arguments, order)
        except (LogitkitError, RecursionError):
            return arguments
        return found


def _ways(possible: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Yield ways to choose one value of each member: the first of each, all others of a single member, and then some more."""
    first = {name: options[0] for name, options in possible.items()}
    yield first
    for name, options in possible.items():
        yield from ({**first, name: option} for option in options[1:])
    for values in islice(product(*possible.values()), MOST_WAYS):
        yield dict(zip(possible, values, strict=True))


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
