"""Token histories of rows in one growing buffer, and exact comparison with what an engine shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.history.branches import Integers

__all__ = ["HistoryRows", "Parents", "Shown"]

# Columns that a buffer has to spare when it is made; beyond them it doubles.
ROOM = 64


class Shown:
    """What one call shows: the ids of all rows, only for the time of the call.

    Args:
        ids: [R, L] int64, the engine's own tensor or a view of it.
    """

    __slots__ = ("array", "ids", "length", "rows")

    def __init__(self, ids: Tensor) -> None:
        self.ids = ids
        self.rows, self.length = ids.shape
        # A view without a copy; a device's tensor has none.
        self.array: Integers | None = ids.numpy() if ids.device.type == "cpu" else None

    def columns(self, start: int) -> Tensor:
        """Return a copy of the tokens from a column on: [R] if it is one column, [R, T] otherwise."""
        if start != self.length - 1:
            return self.ids[:, start:].clone()
        # numpy touches less memory, all of which a model or a copy of logits has thrown out of the processor's caches.
        return self.ids[:, start].clone() if self.array is None else torch.from_numpy(self.array[:, start].copy())


class Parents(NamedTuple):
    """Which rows the rows of a call continue.

    Args:
        rows: [R'] the row that each continues, -1 where it continues none.
        since: Before this column, where its index is another, the row of its own index holds the same ids.
    """

    rows: Integers
    since: int

    @property
    def moved(self) -> Integers:
        """The rows of the call that continue a row of another index."""
        return np.flatnonzero(self.rows != np.arange(len(self.rows)))


class HistoryRows(ABC):
    """The token ids of R rows, `count`; appending writes one column, moving writes only what changed.

    Args:
        shown: The rows to copy.
    """

    def __init__(self, shown: Shown) -> None:
        self.length = 0
        self.count = shown.rows
        # The newest id of the first row, where the host has it: most histories are told apart by it.
        self.tip: int | None = None
        self.tokens = self._empty(shown.ids, _room(shown.length))
        self.append(shown)

    @staticmethod
    def _empty(like: Tensor, capacity: int) -> Tensor:
        # A buffer made under inference_mode could not be written to outside of it.
        with torch.inference_mode(False):
            return torch.empty((like.shape[0], capacity), dtype=torch.int64, device=like.device)

    def append(self, shown: Shown) -> None:
        """Take over the columns behind those that are here already; the others are equal."""
        if shown.length > self.tokens.shape[1]:
            grown = self._empty(self.tokens, max(_room(shown.length), 2 * self.tokens.shape[1]))
            grown[:, : self.length] = self.tokens[:, : self.length]
            self.tokens = grown
        self._write(shown)
        self.length = shown.length

    @abstractmethod
    def _write(self, shown: Shown) -> None:
        """Copy the columns from `self.length` on, for which there is room."""

    @abstractmethod
    def same(self, shown: Shown, start: int, stop: int) -> bool:
        """Whether each row shows, in these columns, what it has here."""

    @abstractmethod
    def equal_rows(self, shown: Shown, row: int, stop: int) -> Integers:
        """Return the indices of all rows here whose first `stop` ids are those of one row shown."""

    @abstractmethod
    def parents(self, shown: Shown, stop: int, keys: Integers | None, shown_keys: Integers | None) -> Parents:
        """Find, for each row shown, a row here with the same first `stop` ids and the same key.

        Of equal rows that with the same index goes first, then the lowest index.

        Args:
            shown: [R'] rows; R' may be another number than here.
            stop: Columns to compare.
            keys: [R] what must agree beside the ids, or None.
            shown_keys: [R'] the same of the rows shown.
        """

    @abstractmethod
    def move(self, parents: Parents, shown: Shown) -> None:
        """Make each row that of its parent, and append the newest column."""


def _room(length: int) -> int:
    return 1 << (length + ROOM - 1).bit_length()
