"""Rows that an engine shows together: their tokens, maybe compared on an accelerator, and their states at recent lengths."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logitkit.protocol.calls import advance_checked
from logitkit.protocol.context import Context, select_context
from logitkit.protocol.processor import Processor
from logitkit.protocol.state import select
from logitkit.tracking.branches import Integers
from logitkit.tracking.generation import Generation, Port, store
from logitkit.tracking.rows import HistoryRows, Parents, Shown

__all__ = ["Checkpoints", "DeviceRows", "RowGroup"]

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


# A group keeps its states at the last `DENSE` lengths, and at every `SPACING`-th of the `REACH` lengths before those. So after a
# rejected draft of up to `REACH` tokens, fewer than `SPACING` tokens are replayed.
DENSE, SPACING, REACH = 8, 8, 64
KEPT = DENSE + REACH // SPACING + 8


class Checkpoints(dict[int, Any]):
    """The states of some rows by length, for recent lengths.

    A missing state is computed by replaying tokens from an earlier one.
    """

    def put(self, length: int, state: Any) -> None:
        """Keep a state, and drop those at much shorter lengths if there are too many."""
        self[length] = state
        if len(self) > KEPT:
            newest = max(self)
            spans = {n: REACH + DENSE if n % SPACING == 0 else DENSE for n in self if n != length}
            for far in [n for n, span in spans.items() if newest - n >= span]:
                del self[far]

    def nearest(self, length: int) -> tuple[int, Any] | None:
        """Return the largest kept length that is at most the given one, and its state; None if there is none."""
        near = length if length in self else max((n for n in self if n < length), default=None)
        return None if near is None else (near, self[near])

    def upto(self, length: int) -> Checkpoints:
        """Return the checkpoints at lengths up to this one, which share their states with these."""
        return Checkpoints({n: s for n, s in self.items() if n <= length})

    def cut(self) -> None:
        """Drop all states except the one at the largest length."""
        for length in sorted(self)[:-1]:
            del self[length]


def keep_rows(shown: Shown) -> HistoryRows:
    """Copy rows into a buffer on their own device."""
    return HistoryRows(shown) if shown.array is not None else DeviceRows(shown)


class RowGroup:
    """Rows that were shown together and grow together.

    Args:
        generation: Their prompts and initial states.
        origin: [R] the row of the generation that each row comes from; None if it is the row of the same index.
        shown: The first call that shows them.
        keys: [R] a number that a continuation must have in common with its row, besides the tokens; or None.
    """

    def __init__(self, generation: Generation, origin: Integers | None, shown: Shown, keys: Integers | None) -> None:
        self.generation, self.origin, self.rows, self.keys = generation, origin, keep_rows(shown), keys
        self.starts = generation.starts if origin is None else generation.starts[origin]
        self.first, self.last = int(self.starts.min()), int(self.starts.max())
        # The engine's name for these rows, if it has one.
        self.sequence: Hashable = None
        self.checkpoints: dict[Port, Checkpoints] = {}
        self._contexts: dict[Port, tuple[Context, Tensor | None, Integers]] = {}
        self._prompt_numbers: Integers | None = None

    def follow(self, shown: Shown, jumps: bool) -> int | None:
        """Return how many leading columns of a call are known here, or None if the call does not continue these rows in order.

        Args:
            shown: The call.
            jumps: Whether it may be longer by more than one token.
        """
        rows, length, known = self.rows, shown.length, self.rows.length
        if rows.count != shown.rows or length < self.last or (length > known + 1 and not jumps):
            return None
        if length > known:
            return known if rows.same(shown, 0, known) else None
        if length == self.last:
            return length if rows.same(shown, 0, length) else None
        if not rows.same(shown, 0, length - 1):
            return None
        return length if rows.same(shown, length - 1, length) else length - 1

    def parents(self, shown: Shown, keys: Integers | None) -> Parents | None:
        """Return the row that each row of a call continues by one token, or None if some row continues none."""
        before = shown.length - 1
        if not self.first <= before <= self.rows.length:
            return None
        parents = self.rows.parents(shown, before, self.keys, keys)
        if np.minimum.reduce(parents.rows) < 0 or (self.first < self.last and self.starts[parents.rows].max() > before):
            return None
        return parents

    def start_of(self, shown: Shown, row: int, key: int | None) -> tuple[int, int] | None:
        """Return the columns at which the prompt of one row of a call begins and ends, or None if the row is unknown here."""
        length, starts = shown.length, self.starts
        if not self.first <= length <= self.rows.length + 1:
            return None
        # A known row extends this one by a token or replaces its last token, or repeats its prompt.
        found = (
            [r for r in self.rows.equal_rows(shown, row, length - 1).tolist() if starts[r] < length] if length else []
        )
        if not found and length <= self.rows.length:
            found = [r for r in self.rows.equal_rows(shown, row, length).tolist() if starts[r] == length]
        for same in found:
            if key is None or self.keys is None or self.keys[same] == key:
                return int(self.skips[same]), int(starts[same])
        return None

    @property
    def skips(self) -> Integers:
        """The columns at which the prompts begin, [R]."""
        return self.generation.skips if self.origin is None else self.generation.skips[self.origin]

    def state_at(self, processor: Processor[Any], port: Port, length: int) -> Any:
        """Return the state of these rows at a number of columns: a kept one, or one replayed from it."""
        found = None if port not in self.checkpoints else self.checkpoints[port].nearest(length)
        if found is not None:
            near, state = found
            if near == length:
                return state
        else:
            near, state = self.first, self.generation.root(processor, port)[1]
            if self.origin is not None:
                state = select(state, torch.from_numpy(self.origin).to(port.device))
        if near < length:
            tokens = self.rows.tokens[:, near:length].to(port.device, copy=True)
            if near < self.last:
                column = torch.arange(near, length, device=port.device)
                tokens.masked_fill_(column < torch.from_numpy(self.starts).to(port.device)[:, None], -1)
            state = advance_checked(processor, state, tokens[:, 0] if length == near + 1 else tokens)
        self.keep(port, length, state)
        return state

    def keep(self, port: Port, length: int, state: Any) -> None:
        """Keep the state of these rows at a number of columns."""
        self.checkpoints_for(port).put(length, state)

    def checkpoints_for(self, port: Port) -> Checkpoints:
        """Return the states that are kept for a port."""
        found = self.checkpoints.get(port)
        if found is None:
            found = Checkpoints()
            store(self.checkpoints, port, found)
        return found

    def extended(self, shown: Shown, seen: int, parents: Parents | None, stays: bool = False) -> RowGroup:
        """Return the group of the rows of a call: this group after growing, or a new one if the rows diverge from it.

        Args:
            shown: The call.
            seen: The number of its leading columns that are known here.
            parents: The row that each row continues; None if it is the row of the same index.
            stays: Whether this group stays as it is if rows moved.
        """
        if parents is None:
            if seen == shown.length:
                return self
            if seen == self.rows.length:
                self.rows.append(shown)
                return self
            branch = RowGroup(self.generation, self.origin, shown, self.keys)
            branch.checkpoints = {port: states.upto(seen) for port, states in self.checkpoints.items()}
            branch._contexts = dict(self._contexts)
            return branch
        if seen == self.rows.length and shown.rows == self.rows.count and not stays:
            self._permute(parents, shown)
            return self
        origin = parents.rows if self.origin is None else self.origin[parents.rows]
        keys = None if self.keys is None else self.keys[parents.rows]
        return RowGroup(self.generation, origin, shown, keys)

    def _permute(self, parents: Parents, shown: Shown) -> None:
        self.rows.move(parents, shown)
        # The kept states have rows in the old order. Beams are not rewound, so they are dropped, not permuted at every step.
        self.checkpoints.clear()
        if self.origin is None:
            self.origin = np.arange(shown.rows)
        if self._prompt_numbers is None:
            self._prompt_numbers = self.generation.prompt_numbers[self.origin]
        self.origin = self.origin[parents.rows]
        # Beams move among rows of the same prompt, which changes neither the context nor the length of the prompt.
        if not (self._prompt_numbers[parents.rows] == self._prompt_numbers).all():
            self._contexts.clear()
            self._prompt_numbers = self._prompt_numbers[parents.rows]
            self.starts = self.generation.starts[self.origin]
            self.first, self.last = int(self.starts.min()), int(self.starts.max())

    def context(self, processor: Processor[Any], port: Port, length: int) -> Context:
        """Return the context of these rows at a number of columns; all calls share the tensor of prompts."""
        known = self._contexts.get(port)
        if known is None:
            base = self.generation.root(processor, port)[0]
            if self.origin is not None:
                base = select_context(base, torch.from_numpy(self.origin).to(port.device))
            device = port.device
            known = base, None if device.type == "cpu" else torch.from_numpy(-self.skips).to(device), -self.skips
            store(self._contexts, port, known)
        base, offset, host = known
        lengths = torch.from_numpy(host + length) if offset is None else offset + length
        return base.at(lengths)
