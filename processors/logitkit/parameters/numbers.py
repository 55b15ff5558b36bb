"""Forms of numbers in a range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logitkit.errors import ConfigurationError
from logitkit.parameters.form import Form
from logitkit.parameters.integers import checked_integer
from logitkit.parameters.place import Place
from logitkit.parameters.reals import as_real, checked_real

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LARGEST", "Integer", "Number"]

# The largest count: engines and files use 32 bits.
LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Integer(Form):
    """An integer in a range; a whole number written as a float is not one.

    Args:
        least: The minimum.
        most: The maximum.
        note: A remark on the range, for errors.

    Example:
        >>> Integer(0, 9).check("n", 5)
        5
        >>> Integer(0, 9).check("n", 10)
        Traceback (most recent call last):
            ...
        logitkit.errors.ConfigurationError: n is 10; allowed are integers from 0 to 9
    """

    least: int
    most: int = LARGEST
    note: str = ""

    @property
    def allowed(self) -> str:
        """A description of the allowed JSON values."""
        return f"an integer from {self.least} to {self.most}"

    def check(self, name: str, given: Any) -> int:
        """Return it as an int."""
        return checked_integer(name, given, self.least, self.most, self.note)

    def fits(self, value: object) -> bool:
        """Whether it is an integer."""
        return isinstance(value, int) and not isinstance(value, bool)

    def read(self, value: Any, place: Place) -> int:
        """Return the integer."""
        if not self.fits(value) or not self.least <= value <= self.most:
            raise place.refuse(value, self.allowed)
        return int(value)

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def problem(self, name: str, values: Tensor) -> str | None:
        """Report a value that is out of range."""
        allowed = (values >= self.least) & (values <= self.most)
        return None if bool(allowed.all()) else f"{name} is not {self.allowed}"


@dataclass(frozen=True, slots=True)
class Number(Form):
    """A finite number in a range.

    Args:
        least: The minimum.
        most: The maximum.
        note: A remark on the range, for errors.
        zero: The meaning of 0, if it is allowed although it is not in the range.

    Example:
        >>> Number(0.5, 1, "1 changes nothing", zero="off").allowed
        '0, or a number from 0.5 to 1'
    """

    least: float
    most: float
    note: str = ""
    zero: str | None = None

    @property
    def allowed(self) -> str:
        """A description of the allowed JSON values."""
        return f"{'' if self.zero is None else '0, or '}a number from {self.least:g} to {self.most:g}"

    def check(self, name: str, given: Any) -> float:
        """Return it as a float."""
        if self.zero is None:
            return checked_real(name, given, self.least, self.most, self.note)
        number = as_real(given)
        if number is None or not self._holds(number):
            raise ConfigurationError(
                f"{name} is {given!r}; allowed are 0 ({self.zero}) and numbers from {self.least:g} to {self.most:g} ({self.note})"
            )
        return number

    def fits(self, value: object) -> bool:
        """Whether it is a JSON number."""
        return isinstance(value, int | float) and not isinstance(value, bool)

    def read(self, value: Any, place: Place) -> float:
        """Return the number."""
        if not self.fits(value) or not self._holds(value):
            raise place.refuse(value, self.allowed)
        return float(value)

    def _holds(self, value: float) -> bool:
        return self.least <= value <= self.most or (self.zero is not None and value == 0)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema; if 0 is also allowed, `read` refuses the numbers between it and the range."""
        return {"type": "number", "minimum": self.least if self.zero is None else 0, "maximum": self.most}

    def problem(self, name: str, values: Tensor) -> str | None:
        """Report a value that is out of range."""
        allowed = (values >= self.least) & (values <= self.most)
        if self.zero is not None:
            allowed = allowed | (values == 0)
        return None if bool(allowed.all()) else f"{name} is not {self.allowed}"
