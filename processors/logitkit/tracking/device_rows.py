"""Token histories on an accelerator, compared there."""

from __future__ import annotations

import numpy as np
import torch

from logitkit.tracking.branches import Integers
from logitkit.tracking.rows import HistoryRows, Parents, Shown

__all__ = ["DeviceRows"]

# The maximum number of elements that are compared at once when all rows are compared with all rows.
PAIRS = 1 << 26


class DeviceRows(HistoryRows):
    """Rows on any device. A usual step reads a single boolean from it, in `same`."""

    def _write(self, shown: Shown) -> None:
        self.tokens[:, self.length : shown.length] = shown.ids[:, self.length :]

    def same(self, shown: Shown, start: int, stop: int) -> bool:
        """Return whether the shown rows equal these, row by row, in columns `start` to `stop`."""
        return stop <= start or torch.equal(self.tokens[:, start:stop], shown.ids[:, start:stop])

    def equal_rows(self, shown: Shown, row: int, stop: int) -> Integers:
        """Return the indices of all rows whose first `stop` ids equal those of one shown row."""
        equal = (self.tokens[:, :stop] == shown.ids[row, :stop]).all(1)
        found: Integers = np.flatnonzero(equal.cpu().numpy())
        return found

    def parents(self, shown: Shown, stop: int, keys: Integers | None, shown_keys: Integers | None) -> Parents:
        """Find, for each shown row, a row with the same first `stop` ids and the same key."""
        mine, given = self.tokens[:, :stop], shown.ids[:, :stop]
        part = max(1, PAIRS // max(1, mine.numel()))
        equal = torch.cat([(rows[:, None] == mine).all(2) for rows in torch.split(given, part)])
        if keys is not None and shown_keys is not None:
            equal &= torch.from_numpy(shown_keys[:, None] == keys).to(equal.device)
        # The row of the same index ranks first, then the lowest index.
        rank = torch.arange(self.count, 0, -1, device=equal.device).repeat(shown.rows, 1)
        rank.diagonal().add_(self.count)
        best, parent = (rank * equal).max(1)
        rows: Integers = torch.where(best > 0, parent, -1).cpu().numpy()
        return Parents(rows, 0)

    def move(self, parents: Parents, shown: Shown) -> None:
        """Replace each row by its parent, and append the newest column."""
        moved = torch.from_numpy(parents.moved).to(self.tokens.device)
        self.tokens[moved, : self.length] = shown.ids[moved, : self.length]
        self.append(shown)
