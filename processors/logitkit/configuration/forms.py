"""The forms of values in a configuration: each reads and checks a value, writes it, and describes itself in JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from logitkit.configuration.place import Place
from logitkit.errors import ConfigurationError


class Form(Protocol):
    """What all forms can do."""

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        ...

    def fits(self, value: object) -> bool:
        """Whether a value, to be read or written, is of this form's type: then errors are told in its words."""
        ...

    def read(self, value: Any, place: Place) -> Any:
        """Return the argument that a value of the configuration stands for.

        Raises:
            ConfigurationError: The value is not allowed.
        """
        ...

    def write(self, value: Any) -> Any:
        """Return the value that stands for an argument."""
        ...

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the values."""
        ...


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number of a range."""

    least: float
    most: float

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        return f"a number from {self.least:g} to {self.most:g}"

    def fits(self, value: object) -> bool:
        """Whether it is a JSON number."""
        return isinstance(value, int | float) and not isinstance(value, bool)

    def read(self, value: Any, place: Place) -> float:
        """Return the number."""
        if not self.fits(value) or not self.least <= value <= self.most:
            raise place.refuse(value, self.allowed)
        return float(value)

    def write(self, value: float) -> float:
        """Return the number."""
        return value

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": "number", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer of a range; a whole number written as a float is none."""

    least: int
    most: int

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        return f"an integer from {self.least} to {self.most}"

    def fits(self, value: object) -> bool:
        """Whether it is an integer."""
        return isinstance(value, int) and not isinstance(value, bool)

    def read(self, value: Any, place: Place) -> int:
        """Return the integer."""
        if not self.fits(value) or not self.least <= value <= self.most:
            raise place.refuse(value, self.allowed)
        return int(value)

    def write(self, value: int) -> int:
        """Return the integer."""
        return value

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class TokenId:
    """A token id of the vocabulary."""

    allowed = "a token id of the vocabulary, an integer from 0"

    def fits(self, value: object) -> bool:
        """Whether it is an integer."""
        return isinstance(value, int) and not isinstance(value, bool)

    def read(self, value: Any, place: Place) -> int:
        """Return the id."""
        return Integer(0, place.vocabulary.size - 1).read(value, place)

    def write(self, value: int) -> int:
        """Return the id.

        Raises:
            ConfigurationError: It is a list, of a row among others.
        """
        if not self.fits(value):
            raise ConfigurationError(f"{value!r} stands for one of several rows; a configuration is that of one row")
        return value

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": "integer", "minimum": 0}


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false."""

    allowed = "true or false"

    def fits(self, value: object) -> bool:
        """Whether it is a boolean."""
        return isinstance(value, bool)

    def read(self, value: Any, place: Place) -> bool:
        """Return the boolean."""
        if not isinstance(value, bool):
            raise place.refuse(value, self.allowed)
        return value

    def write(self, value: bool) -> bool:
        """Return the boolean."""
        return value

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Null:
    """Nothing."""

    allowed = "null"

    def fits(self, value: object) -> bool:
        """Whether it is null."""
        return value is None

    def read(self, value: Any, place: Place) -> None:
        """Return nothing."""
        if value is not None:
            raise place.refuse(value, self.allowed)

    def write(self, value: None) -> None:
        """Return nothing."""

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": "null"}


@dataclass(frozen=True, slots=True)
class Text:
    """A string, or where bytes are meant that are no text in UTF-8, `{"hex": "c3"}`.

    Args:
        least: Fewest characters.
        raw: Whether bytes are allowed.
    """

    least: int = 1
    raw: bool = True

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        return f"a string{'' if self.least == 0 else ' that is not empty'}" + (' or {"hex": "..."}' if self.raw else "")

    def fits(self, value: object) -> bool:
        """Whether it is a string, or where bytes are allowed, an object or bytes themselves, which are there to be written."""
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
        """Return a string if it says the same."""
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
class ListOf:
    """A list of values of one form."""

    form: Form
    least: int = 1

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        return f"a list{' that is not empty' if self.least else ''}, each of it {self.form.allowed}"

    def fits(self, value: object) -> bool:
        """Whether it is a list."""
        return isinstance(value, list | tuple)

    def read(self, value: Any, place: Place) -> list[Any]:
        """Return the list of what the values stand for."""
        if not self.fits(value) or len(value) < self.least:
            raise place.refuse(value, self.allowed)
        return [self.form.read(item, place.inside(i)) for i, item in enumerate(value)]

    def write(self, value: Sequence[Any]) -> list[Any]:
        """Return the list of what stands for the values."""
        return [self.form.write(item) for item in value]

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": "array", "items": self.form.schema()} | ({"minItems": self.least} if self.least else {})


@dataclass(frozen=True, slots=True)
class Either:
    """A value of the first form that it fits."""

    forms: tuple[Form, ...]

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        return ", or ".join(form.allowed for form in self.forms)

    def fits(self, value: object) -> bool:
        """Whether it fits any."""
        return any(form.fits(value) for form in self.forms)

    def read(self, value: Any, place: Place) -> Any:
        """Return what the value stands for."""
        form = next((form for form in self.forms if form.fits(value)), None)
        if form is None:
            raise place.refuse(value, self.allowed)
        return form.read(value, place)

    def write(self, value: Any) -> Any:
        """Return what stands for the value."""
        return next(form for form in self.forms if form.fits(value)).write(value)

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"anyOf": [form.schema() for form in self.forms]}
