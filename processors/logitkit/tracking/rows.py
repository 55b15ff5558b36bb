"""Token histories of rows in one growing buffer, compared exactly with the ids that an engine shows."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.tracking.branches import Integers, branch_columns, hashes_of, names_of

__all__ = ["HistoryRows", "Parents", "Shown"]

# The number of spare columns of a new buffer; when they are full, the buffer doubles.
ROOM = 64

# If rows moved, their newest tokens nearly always differ. So comparing this many first usually saves comparing all of them.
PROBE = 4

# Up to this many ids, a comparison takes the same time whatever their number.
SMALL = 4096

# The number of new columns that count as branching columns before they are checked.
UNSORTED = 32

# Up to this many columns are copied for all rows, moved or not.
FEW = 64


class Shown:
    """The ids of all rows that one call shows, used during that call only.

    Args:
        ids: [R, L] int64, the engine's own tensor or a view of it.
    """

    __slots__ = ("array", "ids", "length", "rows")

    def __init__(self, ids: Tensor) -> None:
        self.ids = ids
        self.rows, self.length = ids.shape
        # A view, without a copy; None for a tensor on an accelerator.
        self.array: Integers | None = ids.numpy() if ids.device.type == "cpu" else None

    def columns(self, start: int) -> Tensor:
        """Return a copy of the tokens from column `start` to the last: [R] for a single column, otherwise [R, T]."""
        if start != self.length - 1:
            return self.ids[:, start:].clone()
        # numpy touches less memory, and after a model's forward pass none of it is in the processor's caches.
        return self.ids[:, start].clone() if self.array is None else torch.from_numpy(self.array[:, start].copy())


class Parents(NamedTuple):
    """The rows that the rows of a call continue.

    Args:
        rows: [R'] the row that each continues, or -1.
        since: Before this column, each row holds the same ids as its parent, so that nothing needs to be copied.
    """

    rows: Integers
    since: int

    @property
    def moved(self) -> Integers:
        """The rows of the call that continue a row with a different index."""
        return np.flatnonzero(self.rows != np.arange(len(self.rows)))


class HistoryRows:
    """The token ids of `count` rows, in the memory of the CPU; `DeviceRows` are the same on an accelerator.

    `append` writes one column, and `move` writes only the columns that changed.

    Args:
        shown: The rows to copy.
    """

    def __init__(self, shown: Shown) -> None:
        self.length = 0
        self.count = shown.rows
        # The newest id of the first row, which differs between most histories; None on an accelerator.
        self.tip: int | None = None
        self.tokens = self._empty(shown.ids, _room(shown.length))
        # The columns at which rows differ first, and new columns that may not be among them. Only beams need them, so they are
        # computed when rows move for the first time.
        self._branches: Integers | None = None
        self._limit = 0
        self.append(shown)

    @staticmethod
    def _empty(like: Tensor, capacity: int) -> Tensor:
        # A buffer created in inference mode could not be written to outside of it.
        with torch.inference_mode(False):
            return torch.empty((like.shape[0], capacity), dtype=torch.int64, device=like.device)

    def append(self, shown: Shown) -> None:
        """Copy the columns after those that are already here; the earlier ones are equal."""
        if shown.length > self.tokens.shape[1]:
            grown = self._empty(self.tokens, max(_room(shown.length), 2 * self.tokens.shape[1]))
            grown[:, : self.length] = self.tokens[:, : self.length]
            self.tokens = grown
        self._write(shown)
        self.length = shown.length

    def _write(self, shown: Shown) -> None:
        """Copy the columns from `self.length` on, which fit into the buffer."""
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
        """Return whether the shown rows equal these, row by row, in columns `start` to `stop`."""
        mine, given = self._mine, _array(shown)
        if stop <= start:
            return True
        if mine[0, stop - 1] != given[0, stop - 1]:
            return False
        # Rows that have never moved before are unlikely to have moved now.
        if self._branches is not None and len(mine) * (stop - start) > SMALL:
            probe = max(start, stop - PROBE)
            if not _all(mine[:, probe:stop] == given[:, probe:stop]):
                return False
        return _all(mine[:, start:stop] == given[:, start:stop])

    def equal_rows(self, shown: Shown, row: int, stop: int) -> Integers:
        """Return the indices of all rows whose first `stop` ids equal those of one shown row."""
        mine, given = self._mine, _array(shown)[row]
        if stop and not (mine[:, stop - 1] == given[stop - 1]).any():
            return np.zeros(0, np.int64)
        return np.flatnonzero((mine[:, :stop] == given[:stop]).all(1))

    def parents(self, shown: Shown, stop: int, keys: Integers | None, shown_keys: Integers | None) -> Parents:
        """Find, for each shown row, a row with the same first `stop` ids and the same key.

        Among equal rows, the one with the same index is chosen, otherwise the one with the lowest index.

        Args:
            shown: R' rows, which may be more or fewer than these.
            stop: The number of columns to compare.
            keys: [R] a number per row that must be the same, or None.
            shown_keys: [R'] the same for the shown rows.
        """
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
            # Different rows may have equal hashes. Names are exact, so they decide.
            if -1 not in found and np.minimum.reduce(parents.rows) >= 0:
                break
        return parents

    def _columns(self, shown: Shown, stop: int) -> Integers | None:
        """Return the columns before `stop` that identify the rows, or None if no row can be continued."""
        if self._branches is None:
            # Sorting whole rows is slow, so first check that one of them is continued.
            if not len(self.equal_rows(shown, 0, stop)):
                return None
            self._branches = self._limited(branch_columns(self._mine[:, : self.length]))
        return self._branches if stop == self.length else self._branches[self._branches < stop]

    def _limited(self, columns: Integers) -> Integers:
        self._limit = len(columns) + UNSORTED
        return columns

    def _verified(self, rows: Integers, own: Integers, given: Integers, columns: Integers, stop: int) -> Parents:
        """Compare each row with its proposed parent, id by id, and replace wrong proposals by -1."""
        mine, since = self._mine, 0
        equal = np.ones((1, 1), np.bool_)
        if len(mine) == len(given):
            # Rows first differ in a branching column, so before it each row equals its parent and nothing needs to be gathered.
            differs = np.logical_or.reduce(own != own[rows], 0)
            place = int(differs.argmax()) if len(columns) else 0
            since = int(columns[place]) if len(columns) and differs[place] else stop
            equal = mine[:, :since] == given[:, :since]
        # A row without a parent is compared with an arbitrary row, which has no effect.
        rest = mine[rows, since:stop] == given[:, since:stop]
        if not (_all(equal) and _all(rest)):
            rows = np.where(equal.all(1) & rest.all(1), rows, -1)
        return Parents(rows, since)

    def move(self, parents: Parents, shown: Shown) -> None:
        """Replace each row by its parent, and append the newest column."""
        since, stop = parents.since, self.length
        if since < stop:
            # For a few columns, writing all rows is faster than selecting those that moved.
            which = parents.moved if stop - since > FEW else slice(None)
            self._mine[which, since:stop] = _array(shown)[which, since:stop]
        self.append(shown)


def _array(shown: Shown) -> Integers:
    assert shown.array is not None, "rows on the CPU are compared with ids on the CPU"
    return shown.array


def _proposed(own: list[Hashable], asked: list[Hashable]) -> list[int]:
    """Return, for each name in `asked`, the row of that name in `own`: the one with the same index, else the first, else -1."""
    first = dict(zip(reversed(own), range(len(own) - 1, -1, -1), strict=True))
    if len(own) != len(asked):
        return [first.get(name, -1) for name in asked]
    pairs = enumerate(zip(own, asked, strict=True))
    return [row if mine == name else first.get(name, -1) for row, (mine, name) in pairs]


def _all(equal: NDArray[np.bool_]) -> bool:
    # Much faster than `all`, especially for small arrays.
    return int(np.count_nonzero(equal)) == equal.size


def _room(length: int) -> int:
    return 1 << (length + ROOM - 1).bit_length()
