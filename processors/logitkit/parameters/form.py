"""The base of all forms of parameters."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar

from logitkit.parameters.place import Place

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Form"]


class Form:
    """One parameter of a processor: its allowed values, its JSON form, and the values allowed in a saved state.

    Subclasses are frozen dataclasses. They define `allowed`, `types` and `described`, or the methods that read these. The other
    methods have defaults for values that look the same in JSON.
    """

    # The Python types of the JSON values; a bool, which is also an int in Python, has only the type bool.
    types: ClassVar[tuple[type, ...]] = ()

    # The JSON Schema of the values, if it is the same for all forms of a class.
    described: ClassVar[dict[str, Any]] = {}

    # Whether errors must not show the values.
    secret: ClassVar[bool] = False

    @property
    def allowed(self) -> str:
        """A description of the allowed JSON values."""
        raise NotImplementedError

    def check(self, name: str, given: Any) -> Any:
        """Return an argument in the form that a processor stores; unchanged by default.

        Args:
            name: The argument's name.
            given: Its value.

        Raises:
            ConfigurationError: The value is not allowed.
        """
        return given

    def fits(self, value: object) -> bool:
        """Whether a value has this form's type, so that errors about it use this form's description."""
        return isinstance(value, self.types) and (bool in self.types or not isinstance(value, bool))

    def holds(self, value: Any) -> Any:
        """Whether a value of this form's type is allowed."""
        return True

    def read(self, value: Any, place: Place) -> Any:
        """Return the argument for a configuration value.

        Raises:
            ConfigurationError: The value is not allowed.
        """
        if not self.fits(value) or not self.holds(value):
            raise place.refuse(value, self.allowed)
        return value

    def write(self, value: Any) -> Any:
        """Return the JSON value of an argument."""
        return value

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the values."""
        return deepcopy(self.described)

    def problem(self, name: str, values: Tensor) -> str | None:
        """Describe an impossible value in a field of a saved state, or return None.

        Args:
            name: The field's name.
            values: The values of the field, on the CPU.
        """
        return None
