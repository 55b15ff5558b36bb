"""Token histories of rows in one growing buffer, and exact comparison with what an engine shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.history_branches import branch_columns, names_of

__all__ = ["DeviceRows", "HistoryRows", "HostRows", "Parents", "Shown", "keep_rows"]

Integers = NDArray[np.int64]

# Columns that a buffer has to spare when it is made; beyond them it doubles.
ROOM = 64

# Of rows that moved, the newest tokens nearly always differ: looking at so many first saves a comparison of everything.
PROBE = 4

# New columns that count as branches before it is found out which of them are.
UNSORTED = 32

# Columns that are copied for all rows, moved or not.
FEW = 64

# Most elements of a comparison of all rows with all rows on a device, before it is done in parts.
PAIRS = 1 << 26


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
        return self.ids[:, start].clone() if start == self.length - 1 else self.ids[:, start:].clone()


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
    """The token ids of R rows; appending writes one column, moving writes only what changed.

    Args:
        shown: The rows to copy.
    """

    def __init__(self, shown: Shown) -> None:
        self.length = 0
        self.tokens = self._empty(shown.ids, _room(shown.length))
        self.append(shown)

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.tokens.shape[0]

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


class HostRows(HistoryRows):
    """Rows in the memory of the CPU, compared with numpy."""

    def __init__(self, shown: Shown) -> None:
        # Columns that tell rows apart, and some that may not. Only beams need them: found when rows move for the first time.
        self._branches: Integers | None = None
        self._limit = 0
        super().__init__(shown)

    def _write(self, shown: Shown) -> None:
        given, start = _array(shown), self.length
        self._mine: Integers = self.tokens.numpy()
        self._mine[:, start : shown.length] = given[:, start:]
        if self._branches is not None:
            columns = np.concatenate((self._branches, np.arange(start, shown.length)))
            if len(columns) > self._limit:
                columns = self._limited(columns[branch_columns(self._mine[:, columns])])
            self._branches = columns

    def same(self, shown: Shown, start: int, stop: int) -> bool:
        mine, given = self._mine, _array(shown)
        if stop <= start:
            return True
        if mine[0, stop - 1] != given[0, stop - 1]:
            return False
        probe = max(start, stop - PROBE)
        if len(mine) > 1 and not _all(mine[:, probe:stop] == given[:, probe:stop]):
            return False
        return _all(mine[:, start:stop] == given[:, start:stop])

    def equal_rows(self, shown: Shown, row: int, stop: int) -> Integers:
        mine, given = self._mine, _array(shown)[row]
        if stop and not (mine[:, stop - 1] == given[stop - 1]).any():
            return np.zeros(0, np.int64)
        return np.flatnonzero((mine[:, :stop] == given[:stop]).all(1))

    def parents(self, shown: Shown, stop: int, keys: Integers | None, shown_keys: Integers | None) -> Parents:
        given = _array(shown)
        columns = self._columns(shown, stop)
        if columns is None:
            return Parents(np.full(len(given), -1), 0)
        own, asked = self._mine[:, columns], given[:, columns]
        names = names_of(own, keys)
        first = dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))
        if len(own) != len(asked):
            found = [first.get(name, -1) for name in names_of(asked, shown_keys)]
            return self._verified(np.array(found), given, 0, stop)
        # A twin of lower index is as good a parent, but a row rather continues itself.
        pairs = enumerate(zip(names, names_of(asked, shown_keys), strict=True))
        rows = np.array([row if mine == name else first.get(name, -1) for row, (mine, name) in pairs])
        # A row and its parent differ first in a branch column, so before it nothing needs to be gathered.
        differs = np.logical_or.reduce(own != own[rows], 0)
        place = int(differs.argmax()) if len(columns) else 0
        since = int(columns[place]) if len(columns) and differs[place] else stop
        return self._verified(rows, given, since, stop)

    def _columns(self, shown: Shown, stop: int) -> Integers | None:
        """Return the columns before `stop` that tell the rows apart, or None for rows that cannot be a continuation."""
        if self._branches is None:
            # Sorting whole rows is worth while only if one of them continues.
            if not len(self.equal_rows(shown, 0, stop)):
                return None
            self._branches = self._limited(branch_columns(self._mine[:, : self.length]))
        return self._branches if stop == self.length else self._branches[self._branches < stop]

    def _limited(self, columns: Integers) -> Integers:
        self._limit = len(columns) + UNSORTED
        return columns

    def _verified(self, rows: Integers, given: Integers, since: int, stop: int) -> Parents:
        """Compare every id with that of the proposed parent, once, and take back what is wrong."""
        mine = self._mine
        equal = mine[:, :since] == given[:, :since] if since else np.ones((1, 1), np.bool_)
        # A row without a parent is compared with any row, to no effect.
        rest = mine[rows, since:stop] == given[:, since:stop]
        if not (_all(equal) and _all(rest)):
            rows = np.where(equal.all(1) & rest.all(1), rows, -1)
        return Parents(rows, since)

    def move(self, parents: Parents, shown: Shown) -> None:
        since, stop = parents.since, self.length
        if since < stop:
            # Of few columns it is faster to write all rows than to pick those that moved.
            which = parents.moved if stop - since > FEW else slice(None)
            self._mine[which, since:stop] = _array(shown)[which, since:stop]
        self.append(shown)


class DeviceRows(HistoryRows):
    """Rows on any device, compared there; `same` reads one boolean from it, and nothing else on the fast path does."""

    def _write(self, shown: Shown) -> None:
        self.tokens[:, self.length : shown.length] = shown.ids[:, self.length :]

    def same(self, shown: Shown, start: int, stop: int) -> bool:
        return stop <= start or torch.equal(self.tokens[:, start:stop], shown.ids[:, start:stop])

    def equal_rows(self, shown: Shown, row: int, stop: int) -> Integers:
        equal = (self.tokens[:, :stop] == shown.ids[row, :stop]).all(1)
        found: Integers = np.flatnonzero(equal.cpu().numpy())
        return found

    def parents(self, shown: Shown, stop: int, keys: Integers | None, shown_keys: Integers | None) -> Parents:
        mine, given = self.tokens[:, :stop], shown.ids[:, :stop]
        part = max(1, PAIRS // max(1, mine.numel()))
        equal = torch.cat([(rows[:, None] == mine).all(2) for rows in given.split(part)])
        if keys is not None and shown_keys is not None:
            equal &= torch.from_numpy(shown_keys[:, None] == keys).to(equal.device)
        # The best is the largest number: the same index before all, then the lowest.
        rank = torch.arange(self.count, 0, -1, device=equal.device).repeat(shown.rows, 1)
        rank.diagonal().add_(self.count)
        best, parent = (rank * equal).max(1)
        rows: Integers = torch.where(best > 0, parent, -1).cpu().numpy()
        return Parents(rows, 0)

    def move(self, parents: Parents, shown: Shown) -> None:
        moved = torch.from_numpy(parents.moved).to(self.tokens.device)
        self.tokens[moved, : self.length] = shown.ids[moved, : self.length]
        self.append(shown)


def keep_rows(shown: Shown) -> HistoryRows:
    """Copy rows into a buffer where they are: in the CPU's memory or on a device."""
    return HostRows(shown) if shown.array is not None else DeviceRows(shown)


def _array(shown: Shown) -> Integers:
    assert shown.array is not None, "rows on the CPU are compared with ids on the CPU"
    return shown.array


def _all(equal: NDArray[np.bool_]) -> bool:
    # Much faster than `all`, for small arrays above all.
    return np.count_nonzero(equal) == equal.size


def _room(length: int) -> int:
    return 1 << (length + ROOM - 1).bit_length()
