"""Forms of numbers in a range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logitkit.errors import ConfigurationError
from logitkit.parameters.form import Form
from logitkit.parameters.place import Place
from logitkit.parameters.scalars import as_real, checked_integer

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LARGEST", "Integer", "Number"]

# The largest count: engines and files use 32 bits.
LARGEST = 2**31 - 1


class _InRange(Form):
    """Numbers from `least` to `most`."""

    least: Any
    most: Any

    def holds(self, value: Any) -> Any:
        """Whether a number is in the range; for a tensor, each of its numbers."""
        return (self.least <= value) & (value <= self.most)

    def problem(self, name: str, values: Tensor) -> str | None:
        """Report a value that is out of range."""
        return None if bool(self.holds(values).all()) else f"{name} is not {self.allowed}"


@dataclass(frozen=True, slots=True)
class Integer(_InRange):
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

    types = (int,)

    @property
    def allowed(self) -> str:
        """A description of the allowed JSON values."""
        return f"an integer from {self.least} to {self.most}"

    def read(self, value: Any, place: Place) -> int:
        """Return it as an int, also if it is of a subclass."""
        return int(Form.read(self, value, place))

    def check(self, name: str, given: Any) -> int:
        """Return it as an int."""
        return checked_integer(name, given, self.least, self.most, self.note)

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Number(_InRange):
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

    types = (int, float)

    @property
    def allowed(self) -> str:
        """A description of the allowed JSON values."""
        return f"{'' if self.zero is None else '0, or '}a number from {self.least:g} to {self.most:g}"

    def check(self, name: str, given: Any) -> float:
        """Return it as a float."""
        number = as_real(given)
        if number is None or not self.holds(number):
            zero = "" if self.zero is None else f"0 ({self.zero}) and "
            note = f" ({self.note})" if self.note else ""
            allowed = f"{zero}numbers from {self.least:g} to {self.most:g}{note}"
            raise ConfigurationError(f"{name} is {given!r}; allowed are {allowed}")
        return number

    def holds(self, value: Any) -> Any:
        """Whether it is in the range, or 0 if that is allowed."""
        return _InRange.holds(self, value) | ((value == 0) & (self.zero is not None))

    def read(self, value: Any, place: Place) -> float:
        """Return the number."""
        return float(Form.read(self, value, place))

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema; if 0 is also allowed, `read` refuses the numbers between it and the range."""
        return {"type": "number", "minimum": self.least if self.zero is None else 0, "maximum": self.most}
