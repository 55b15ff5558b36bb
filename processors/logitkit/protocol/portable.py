"""Optional methods of a state class: its values keep their meaning in another process, and impossible ones are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor

__all__ = ["Checked", "Joined", "Portable", "Renewed"]


@runtime_checkable
class Portable(Protocol):
    """A state that refers to something in this process, such as an automaton's slot in a registry."""

    def to_portable(self, processor: Any) -> tuple[Self, Any]:
        """Return a state without references to this process, and notes on their meaning.

        Args:
            processor: The processor that the state belongs to.

        Returns:
            A state of the same class, whose tensors are saved, and notes that JSON can represent.
        """

    def from_portable(self, notes: Any, processor: Any, device: torch.device) -> Self:
        """Return the state of this process that corresponds to a portable one, given on the CPU.

        Args:
            notes: The notes from `to_portable`, as read from a file: any JSON value.
            processor: The processor that the state will belong to.
            device: Where the state will be used.

        Raises:
            StateFileError: There is no such state here; the message says what is missing and what to do.
        """


@runtime_checkable
class Checked(Protocol):
    """A state in which wrong values could do harm, such as an index out of bounds."""

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, on the CPU, or return None."""


@runtime_checkable
class Joined(Protocol):
    """A state whose rows cannot always share a batch with other rows of the same class."""

    def check_joined(self) -> None:
        """Check a state that `concatenate` has made.

        Raises:
            BatchMismatch: Its rows cannot share a batch; the message says why and what to do.
        """


@runtime_checkable
class Renewed(Protocol):
    """A state whose structure was another one in an earlier version, which files may still have."""

    def renewed(self, tensors: Mapping[str, Tensor]) -> Self:
        """Return the state that the tensors of an earlier structure mean, on the CPU. Only the structure of this state matters.

        Args:
            tensors: The tensors in the file, by their paths within the state, such as `history.tokens`.

        Raises:
            StateFileError: They are not those of an earlier structure, or corrupt.
        """
