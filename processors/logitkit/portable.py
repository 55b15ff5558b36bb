"""What the class of a state may define so that its values mean the same in another process."""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

import torch

__all__ = ["Checked", "Portable"]


@runtime_checkable
class Portable(Protocol):
    """A state that refers to something of this process, such as a place in a bank of automata."""

    def to_portable(self, processor: Any) -> tuple[Self, Any]:
        """Return a state that refers to nothing here, and notes on what it meant.

        Args:
            processor: The processor that the state belongs to.

        Returns:
            A state of the same class whose tensors go to the file, and notes that JSON can hold.
        """
        ...

    def from_portable(self, notes: Any, processor: Any, device: torch.device) -> Self:
        """Return the state that a portable one, on the CPU, stands for in this process.

        Args:
            notes: What `to_portable` noted; read from a file, so anything that JSON can hold.
            processor: The processor that the state shall belong to.
            device: Where the state will be used.

        Raises:
            StateFileError: It stands for nothing here; the message says what is missing, and what to do.
        """
        ...


@runtime_checkable
class Checked(Protocol):
    """A state in which wrong values could do harm, such as an index out of bounds."""

    def problem(self) -> str | None:
        """Say what is impossible about values read from a file, on the CPU, or return None."""
        ...
