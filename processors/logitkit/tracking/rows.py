"""Token histories of rows in one growing buffer, and exact comparison with what an engine shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.tracking.branches import Integers, branch_columns, hashes_of, names_of

__all__ = ["HistoryRows", "HostRows", "Parents", "Shown"]

# Columns that a buffer has to spare when it is made; beyond them it doubles.
ROOM = 64

# Of rows that moved, the newest tokens nearly always differ: looking at so many first saves a comparison of
# everything.
PROBE = 4

# So many ids are compared as fast as a few.
SMALL = 4096

# New columns that count as branches before it is found out which of them are.
UNSORTED = 32

# Columns that are copied for all rows, moved or not.
FEW = 64


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


class HostRows(HistoryRows):
    """Rows in the memory of the CPU: one comparison of all ids, and a few small operations."""

    def __init__(self, shown: Shown) -> None:
        # Columns that tell rows apart, and some that may not. Only beams need them: found when rows move for
        # the first time.
        self._branches: Integers | None = None
        self._limit = 0
        super().__init__(shown)

    def _write(self, shown: Shown) -> None:
        given, start = _array(shown), self.length
        self._mine: Integers = self.tokens.numpy()
        self._mine[:, start : shown.length] = given[:, start:]
        self.tip = int(given[0, -1]) if shown.length else None
        if self._branches is not None:
            columns = np.concatenate((self._branches, np.arange(start, shown.length)))
            if len(columns) > self._limit:
                columns = self._limited(columns[branch_columns(self._mine[:, columns])])
            self._branches = columns

    def same(self, shown: Shown, start: int, stop: int) -> bool:
        """Whether each row shows, in these columns, what it has here."""
        mine, given = self._mine, _array(shown)
        if stop <= start:
            return True
        if mine[0, stop - 1] != given[0, stop - 1]:
            return False
        # Rows that have never moved will hardly have done so now.
        if self._branches is not None and len(mine) * (stop - start) > SMALL:
            probe = max(start, stop - PROBE)
            if not _all(mine[:, probe:stop] == given[:, probe:stop]):
                return False
        return _all(mine[:, start:stop] == given[:, start:stop])

    def equal_rows(self, shown: Shown, row: int, stop: int) -> Integers:
        """Return the indices of all rows here whose first `stop` ids are those of one row shown."""
        mine, given = self._mine, _array(shown)[row]
        if stop and not (mine[:, stop - 1] == given[stop - 1]).any():
            return np.zeros(0, np.int64)
        return np.flatnonzero((mine[:, :stop] == given[:stop]).all(1))

    def parents(self, shown: Shown, stop: int, keys: Integers | None, shown_keys: Integers | None) -> Parents:
        """Find, for each row shown, a row here with the same first `stop` ids and the same key."""
        given = _array(shown)
        columns = self._columns(shown, stop)
        if columns is None:
            return Parents(np.full(len(given), -1), 0)
        own, asked = self._mine[:, columns], given[:, columns]
        for name in (hashes_of, names_of):
            found = _proposed(name(own, keys), name(asked, shown_keys))
            parents = self._verified(np.array(found), own, given, columns, stop)
            if keys is not None:
                parents = parents._replace(rows=np.where(keys[parents.rows] == shown_keys, parents.rows, -1))
            # Two hashes may be equal by chance: names, which are exact, have the last word.
            if -1 not in found and np.minimum.reduce(parents.rows) >= 0:
                break
        return parents

    def _columns(self, shown: Shown, stop: int) -> Integers | None:
        """Return the columns before `stop` that tell the rows apart; None if nothing is continued anyway."""
        if self._branches is None:
            # Sorting whole rows is worth while only if one of them continues.
            if not len(self.equal_rows(shown, 0, stop)):
                return None
            self._branches = self._limited(branch_columns(self._mine[:, : self.length]))
        return self._branches if stop == self.length else self._branches[self._branches < stop]

    def _limited(self, columns: Integers) -> Integers:
        self._limit = len(columns) + UNSORTED
        return columns

    def _verified(self, rows: Integers, own: Integers, given: Integers, columns: Integers, stop: int) -> Parents:
        """Compare every id with that of the proposed parent, once, and take back what is wrong."""
        mine, since = self._mine, 0
        equal = np.ones((1, 1), np.bool_)
        if len(mine) == len(given):
            # A row and its parent differ first in a branch column, so before it nothing needs to be gathered.
            differs = np.logical_or.reduce(own != own[rows], 0)
            place = int(differs.argmax()) if len(columns) else 0
            since = int(columns[place]) if len(columns) and differs[place] else stop
            equal = mine[:, :since] == given[:, :since]
        # A row without a parent is compared with any row, to no effect.
        rest = mine[rows, since:stop] == given[:, since:stop]
        if not (_all(equal) and _all(rest)):
            rows = np.where(equal.all(1) & rest.all(1), rows, -1)
        return Parents(rows, since)

    def move(self, parents: Parents, shown: Shown) -> None:
        """Make each row that of its parent, and append the newest column."""
        since, stop = parents.since, self.length
        if since < stop:
            # Of few columns it is faster to write all rows than to pick those that moved.
            which = parents.moved if stop - since > FEW else slice(None)
            self._mine[which, since:stop] = _array(shown)[which, since:stop]
        self.append(shown)


def _array(shown: Shown) -> Integers:
    assert shown.array is not None, "rows on the CPU are compared with ids on the CPU"
    return shown.array


def _proposed(own: list[Hashable], asked: list[Hashable]) -> list[int]:
    """Return for each row asked for the row of its name: that of the same index, or the first, or -1."""
    first = dict(zip(reversed(own), range(len(own) - 1, -1, -1), strict=True))
    if len(own) != len(asked):
        return [first.get(name, -1) for name in asked]
    pairs = enumerate(zip(own, asked, strict=True))
    return [row if mine == name else first.get(name, -1) for row, (mine, name) in pairs]


def _all(equal: NDArray[np.bool_]) -> bool:
    # Much faster than `all`, for small arrays above all.
    return int(np.count_nonzero(equal)) == equal.size


def _room(length: int) -> int:
    return 1 << (length + ROOM - 1).bit_length()
