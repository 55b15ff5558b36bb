"""Secret keys stay out of what is printed and saved: texts and files of states."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from logitkit.errors import StateFileError

__all__ = ["check_saved_key", "without"]


def without(state: Any, *secrets: str) -> str:
    """Return the text of a named tuple, in which the values of some fields are hidden."""
    fields = zip(state._fields, state, strict=True)
    shown = (f"{name}={'<secret>' if name in secrets else repr(value)}" for name, value in fields)
    return f"{type(state).__name__}({', '.join(shown)})"


def check_saved_key(same: Tensor) -> None:
    """Check that the keys of rows are those of the processor with which they are saved, since a file does not have them.

    Args:
        same: [B] bool.

    Raises:
        StateFileError: One differs.
    """
    if not bool(same.all()):
        row = int((~same).nonzero()[0])
        raise StateFileError(
            f"row {row} of the state has another key than the processor that it is saved with; a file has no keys, so save the "
            "rows of each processor with that processor"
        )
