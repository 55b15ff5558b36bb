"""Forms of JSON values other than numbers: booleans, texts, lists and alternatives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, ClassVar

from logitkit.errors import ConfigurationError
from logitkit.parameters.form import Form
from logitkit.parameters.place import Place

__all__ = ["Boolean", "Either", "ListOf", "Null", "Text", "Word", "elements"]


def elements(name: str, given: object, kind: str) -> list[Any]:
    """Return the elements of a list argument.

    Args:
        name: The argument's name, for the error.
        given: Its value, any iterable except a text.
        kind: The kind of the elements in the plural, for the error.

    Raises:
        ConfigurationError: The value is a text, or is not iterable.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        single = "the single text " if isinstance(given, str | bytes) else ""
        raise ConfigurationError(f"{name} is {single}{given!r}; give a list of {kind}")
    return list(given)


@dataclass(frozen=True, slots=True)
class Boolean(Form):
    """True or false."""

    allowed = "true or false"
    types = (bool,)
    described: ClassVar[dict[str, Any]] = {"type": "boolean"}

    def check(self, name: str, given: Any) -> bool:
        """Return it."""
        if not isinstance(given, bool):
            raise ConfigurationError(f"{name} is {given!r}; allowed are True and False")
        return given


@dataclass(frozen=True, slots=True)
class Null(Form):
    """Nothing."""

    allowed = "null"
    types = (NoneType,)
    described: ClassVar[dict[str, Any]] = {"type": "null"}


@dataclass(frozen=True, slots=True)
class Word(Form):
    """One of a few strings."""

    words: tuple[str, ...]

    types = (str,)

    @property
    def allowed(self) -> str:
        """A description of the allowed JSON values."""
        return " or ".join(f'"{word}"' for word in self.words)

    def check(self, name: str, given: Any) -> str:
        """Return it."""
        if given not in self.words:
            raise ConfigurationError(f"{name} is {given!r}; allowed are {self.words}")
        return str(given)

    def read(self, value: Any, place: Place) -> str:
        """Return it as a str, also if it is of a subclass."""
        return str(Form.read(self, value, place))

    def holds(self, value: Any) -> bool:
        """Whether it is one of the words."""
        return value in self.words

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class Text(Form):
    """A string; bytes that are not valid UTF-8 are written as `{"hex": "c3"}`.

    Args:
        least: The minimum number of characters, 0 or 1.
        raw: Whether bytes are allowed.
    """

    least: int = 1
    raw: bool = True

    @property
    def allowed(self) -> str:
        """A description of the allowed JSON values."""
        return f"a string{'' if self.least == 0 else ' that is not empty'}" + (' or {"hex": "..."}' if self.raw else "")

    def fits(self, value: object) -> bool:
        """Whether it is a string or, if bytes are allowed, an object, or bytes to be written."""
        return isinstance(value, str) or (self.raw and isinstance(value, Mapping | bytes))

    def read(self, value: Any, place: Place) -> str | bytes:
        """Return the string or the bytes."""
        if isinstance(value, str) and len(value) >= self.least:
            return value
        if self.raw and isinstance(value, Mapping) and list(value) == ["hex"]:
            digits = value["hex"]
            if isinstance(digits, str) and len(digits) >= self.least and re.fullmatch("([0-9a-fA-F]{2})*", digits):
                return bytes.fromhex(digits)
        raise place.refuse(value, self.allowed)

    def write(self, value: str | bytes) -> str | dict[str, str]:
        """Return a string, or an object for bytes that are not valid UTF-8."""
        return {"hex": value.hex()} if isinstance(value, bytes) else value

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        string = {"type": "string"} | ({"minLength": self.least} if self.least else {})
        if not self.raw:
            return string
        digits = {"type": "string", "pattern": f"^([0-9a-fA-F]{{2}}){'+' if self.least else '*'}$"}
        raw = {"type": "object", "properties": {"hex": digits}, "required": ["hex"], "additionalProperties": False}
        return {"anyOf": [string, raw]}


@dataclass(frozen=True, slots=True)
class ListOf(Form):
    """A list of values of one form.

    Args:
        form: The form of the items.
        least: The minimum number of items.
        most: Their maximum number, or None.
    """

    form: Form
    least: int = 1
    most: int | None = None

    types = (list, tuple)

    @property
    def allowed(self) -> str:
        """A description of the allowed JSON values."""
        if self.most is not None:
            count = f" of {self.least}" if self.least == self.most else f" of {self.least} to {self.most}"
        else:
            count = " that is not empty" if self.least else ""
        return f"a list{count}, each item {self.form.allowed}"

    def holds(self, value: Any) -> bool:
        """Whether it has an allowed number of items."""
        return len(value) >= self.least and (self.most is None or len(value) <= self.most)

    def read(self, value: Any, place: Place) -> list[Any]:
        """Return the list of the arguments."""
        return [self.form.read(item, place.inside(i)) for i, item in enumerate(Form.read(self, value, place))]

    def write(self, value: Sequence[Any]) -> list[Any]:
        """Return the list of the JSON values."""
        return [self.form.write(item) for item in value]

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        bounds = {"minItems": self.least} if self.least else {}
        bounds |= {} if self.most is None else {"maxItems": self.most}
        return {"type": "array", "items": self.form.schema()} | bounds


@dataclass(frozen=True, slots=True)
class Either(Form):
    """A value of several possible forms; the first that fits is used."""

    forms: tuple[Form, ...]

    @property
    def allowed(self) -> str:
        """A description of the allowed JSON values."""
        return ", or ".join(form.allowed for form in self.forms)

    def check(self, name: str, given: Any) -> Any:
        """Return it as checked by the form that fits; a value that fits none is refused by the first."""
        return next((form for form in self.forms if form.fits(given)), self.forms[0]).check(name, given)

    def fits(self, value: object) -> bool:
        """Whether it fits any of the forms."""
        return any(form.fits(value) for form in self.forms)

    def read(self, value: Any, place: Place) -> Any:
        """Return the argument for the value."""
        form = next((form for form in self.forms if form.fits(value)), None)
        if form is None:
            raise place.refuse(value, self.allowed)
        return form.read(value, place)

    def write(self, value: Any) -> Any:
        """Return the JSON value."""
        return next(form for form in self.forms if form.fits(value)).write(value)

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"anyOf": [form.schema() for form in self.forms]}
