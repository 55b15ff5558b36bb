"""Forms of secret numbers: errors say what is allowed, but never what was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from logitkit.errors import ConfigurationError
from logitkit.parameters.form import Form
from logitkit.parameters.numbers import Integer
from logitkit.parameters.place import HIDDEN, Place
from logitkit.parameters.scalars import as_integer

__all__ = ["SecretInteger", "SecretIntegers"]


@dataclass(frozen=True, slots=True)
class SecretInteger(Integer):
    """An integer in a range, which errors do not show.

    Example:
        >>> SecretInteger(0, 9).check("key", 10)
        Traceback (most recent call last):
            ...
        logitkit.errors.ConfigurationError: key is a value that is not shown, as it is secret; allowed are integers from 0 to 9
    """

    secret: ClassVar[bool] = True

    def read(self, value: Any, place: Place) -> int:
        """Return it as an int, also if it is of a subclass."""
        if not self.fits(value) or not self.holds(value):
            raise ConfigurationError(f"{place.path} is {HIDDEN}; allowed is {self.allowed}")
        return int(value)

    def check(self, name: str, given: Any) -> int:
        """Return it as an int."""
        number = as_integer(given)
        if number is None or not self.holds(number):
            raise ConfigurationError(f"{name} is {HIDDEN}; allowed are integers from {self.least} to {self.most}")
        return number


@dataclass(frozen=True, slots=True)
class SecretIntegers(Form):
    """A list of secret integers, stored as a tuple.

    Args:
        form: The form of each.
        most: Their maximum number.
    """

    form: SecretInteger
    most: int

    types = (list, tuple)
    secret: ClassVar[bool] = True

    @property
    def allowed(self) -> str:
        """A description of the allowed JSON values."""
        return f"a list of 1 to {self.most}, each {self.form.allowed}"

    def check(self, name: str, given: Any) -> tuple[int, ...]:
        """Return them as a tuple."""
        if not isinstance(given, list | tuple) or not 1 <= len(given) <= self.most:
            raise ConfigurationError(f"{name} is {HIDDEN}; allowed is {self.allowed}")
        return tuple(self.form.check(f"{name}[{i}]", number) for i, number in enumerate(given))

    def read(self, value: Any, place: Place) -> tuple[int, ...]:
        """Return them as a tuple."""
        if not self.fits(value) or not 1 <= len(value) <= self.most:
            raise ConfigurationError(f"{place.path} is {HIDDEN}; allowed is {self.allowed}")
        return tuple(self.form.read(number, place.inside(i)) for i, number in enumerate(value))

    def write(self, value: Sequence[int]) -> list[int]:
        """Return the list of the JSON values."""
        return list(value)

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": "array", "items": self.form.schema(), "minItems": 1, "maxItems": self.most}
