"""The distinct tokens of each row, and how often each occurred, for penalties that count all tokens of a row.

A penalty changes the logit of each token that has occurred. Reading the whole history for that costs more with every token. So
the state of a row keeps each distinct token once, sorted: a new token is inserted, and one that has occurred before changes
nothing but its count. Twenty thousand tokens of a text have some three thousand distinct ones.

By hand, for one row with room for four:

    after 7, 3:     ids 3 7 - -     counts 1 1 0 0
    after 7 again:  ids 3 7 - -     counts 1 2 0 0
    after 5:        ids 3 5 7 -     counts 1 1 2 0

Invariants: the ids of a row ascend, and `EMPTY`, which is larger than all of them, fills the rest of the row. Sorted ids are also
the fastest to read and write, as neighbours in memory come one after another.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Annotated, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.kernels import switch
from logitkit.protocol.calls import by_tensors
from logitkit.protocol.context import Context
from logitkit.protocol.state import Fill

__all__ = ["EMPTY", "TokenCounts"]

# Fills the places after the last id.
EMPTY = 2**31 - 1

# A row starts with room for this many ids after those of the prompt, and doubles when it is full.
ROOM = 256


class TokenCounts(NamedTuple):
    """The distinct tokens of each row, ascending.

    Args:
        ids: [B, N] int32 token ids, ascending; `EMPTY` in unused places.
        counts: [B, N] int32, how often each id occurred, 0 in unused places; [B, 0] if only the ids matter.
        number: [B] int64, the number of ids of each row.
        counted: [B] bool, whether the tokens of the row are kept here; those of a row with a window are not.
        grows: [B, 1] bool if a row may ever need more room, else [B, 0]; a shape needs no read from a device.
    """

    ids: Annotated[Tensor, Fill(EMPTY)]
    counts: Tensor
    number: Tensor
    counted: Tensor
    grows: Annotated[Tensor, Fill(True)]

    @classmethod
    def of(cls, context: Context, prompt: Tensor, counted: bool, often: bool) -> TokenCounts:
        """Begin with the tokens of a prompt.

        Args:
            context: The batch.
            prompt: [B, P] int64, -1 = none.
            counted: Whether the tokens of the rows are kept here.
            often: Whether to count how often each token occurs.
        """
        rows, device = context.batch_size, context.device
        if not counted:
            size, grows = 0, False
        elif context.max_length is None:
            # On the host, the prompt gets room for its distinct tokens, which are fewer.
            size, grows = _power_of_two(ROOM + (0 if device.type == "cpu" else prompt.shape[1])), True
        else:
            size, grows = max(context.max_length, prompt.shape[1], 1), False
            # A batch of requests does not know its columns yet. Ids of a prompt may be beyond them.
            if context.vocabulary_size:
                size = min(size, context.vocabulary_size + prompt.shape[1])
        empty = cls(
            torch.full((rows, size), EMPTY, dtype=torch.int32, device=device),
            torch.zeros((rows, size if often else 0), dtype=torch.int32, device=device),
            torch.zeros(rows, dtype=torch.int64, device=device),
            torch.full((rows,), counted, device=device),
            torch.ones((rows, int(grows)), dtype=torch.bool, device=device),
        )
        return empty.add(prompt) if counted and prompt.shape[1] else empty

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        there = torch.arange(self.ids.shape[1]) < self.number[:, None]
        if bool(((self.number < 0) | (self.number > torch.where(self.counted, self.ids.shape[1], 0))).any()):
            return "a row has fewer than 0 ids, or more than it has room for"
        if bool((self.ids < 0).any()) or not torch.equal(self.ids != EMPTY, there):
            return "a row has more or fewer ids than it says"
        if bool(((self.ids[:, 1:] <= self.ids[:, :-1]) & there[:, 1:]).any()):
            return "the ids of a row do not ascend"
        if self.counts.shape[1] and not (self.counts.shape == self.ids.shape and torch.equal(self.counts > 0, there)):
            return "a row has more or fewer counts than ids"
        return None

    def add(self, tokens: Tensor) -> TokenCounts:
        """Return the state after more tokens: [B] or [B, T] int64, -1 = none."""
        if tokens.dim() == 2 and tokens.shape[1] == 1:
            tokens = tokens[:, 0]
        if not by_tensors(tokens):
            return self.add_several(tokens) if tokens.dim() == 2 else self.grown(1).add_one_each(tokens)
        columns = tokens if tokens.dim() == 2 else tokens[:, None]
        grown = self.grown(columns.shape[1])
        return (grown.add_by_kernel(columns) if switch.runs_on(self.ids, tokens) else None) or grown.add_tensors(
            columns
        )

    def grown(self, more: int) -> TokenCounts:
        """Return the state with room for some tokens; if it needs to grow, its room at least doubles.

        A compiled graph cannot read how many ids there are, so there a row must not outgrow its room.
        """
        fixed = self.grows.shape[1] == 0 and not self.ids.is_cpu
        if fixed or torch.compiler.is_compiling() or not len(self.number):
            return self
        size, needed = self.ids.shape[1], max(self.number.tolist()) + more
        if needed <= size or not size:
            return self
        extra = max(_power_of_two(needed), 2 * size) - size
        return self._replace(
            ids=torch.nn.functional.pad(self.ids, (0, extra), value=EMPTY),
            counts=torch.nn.functional.pad(self.counts, (0, extra if self.counts.shape[1] else 0)),
        )

    def add_one_each(self, tokens: Tensor) -> TokenCounts:
        """Add [B] tokens on the CPU, for which there is room.

        It happens at every step, so the rows are searched as one piece of memory; with an array for each, 32 rows take twice as
        long.
        """
        number, size = self.number.tolist(), self.ids.shape[1]
        often, fresh = self.counts.shape[1] > 0, False
        ids: NDArray[np.int32] = self.ids.numpy().reshape(-1)
        counts: NDArray[np.int32] = self.counts.numpy().reshape(-1)
        counts = counts.copy() if often else counts
        known, times = ids.data, counts.data
        for row, (token, counted) in enumerate(zip(tokens.tolist(), self.counted.tolist(), strict=True)):
            if token < 0 or not counted:
                continue
            end = row * size + number[row]
            place = bisect_left(known, token, row * size, end)
            if place == end or known[place] != token:
                if not fresh:
                    ids, fresh = ids.copy(), True
                    known = ids.data
                # One more id would be one of the next row.
                assert number[row] < size, "the row is full"
                if place < end:
                    known[place + 1 : end + 1] = known[place:end]
                    if often:
                        times[place + 1 : end + 1] = times[place:end]
                known[place] = token
                number[row] += 1
                if often:
                    times[place] = 1
            elif often:
                times[place] += 1
        return TokenCounts(
            torch.from_numpy(ids.reshape(-1, size)) if fresh else self.ids,
            torch.from_numpy(counts.reshape(-1, size)) if often else self.counts,
            torch.from_numpy(np.array(number, np.int64)) if fresh else self.number,
            self.counted,
            self.grows,
        )

    def add_several(self, tokens: Tensor) -> TokenCounts:
        """Add [B, T] tokens on the CPU."""
        rows = tokens.numpy().astype(np.int32)
        met = [
            np.unique(row[row >= 0] if counted else row[:0], return_counts=True)
            for row, counted in zip(rows, self.counted.tolist(), strict=True)
        ]
        # Few of many tokens are new, so this may be more room than needed, but not by much.
        found = self.grown(max((len(new) for new, _ in met), default=0))
        ids, counts, number = (part.numpy().copy() for part in (found.ids, found.counts, found.number))
        for row, (new, times) in enumerate(met):
            known = ids[row, : number[row]]
            places = known.searchsorted(new)
            fresh = np.append(known, EMPTY)[places] != new
            end = len(known) + np.count_nonzero(fresh)
            ids[row, :end] = np.insert(known, places[fresh], new[fresh])
            if counts.shape[1]:
                counts[row, :end] = np.insert(counts[row, : len(known)], places[fresh], 0)
                counts[row, ids[row, :end].searchsorted(new)] += times
            number[row] = end
        return found._replace(
            ids=torch.from_numpy(ids), counts=torch.from_numpy(counts), number=torch.from_numpy(number)
        )

    def add_by_kernel(self, tokens: Tensor) -> TokenCounts | None:
        """Add [B, T] tokens, for which there is room; None if no kernel does that, as for several tokens of a row."""
        from logitkit.kernels.memory_step import insert_step

        if tokens.shape[1] != 1:
            return None
        made = insert_step(self.ids, self.counts, self.number, self.counted, tokens)
        return made and self._replace(**made._asdict())

    def add_tensors(self, tokens: Tensor) -> TokenCounts:
        """Add [B, T] tokens, for which there is room."""
        if not self.ids.shape[1]:
            return self
        real = (tokens >= 0) & self.counted[:, None]
        ids, order = torch.cat([self.ids, torch.where(real, tokens, EMPTY).to(torch.int32)], 1).sort(stable=True, dim=1)
        # The first of equal ids stays. Its count is what is added up from there to the next one.
        first = torch.nn.functional.pad(ids[:, 1:] != ids[:, :-1], (1, 0), value=True) & (ids != EMPTY)
        counts = self.counts
        if counts.shape[1]:
            sums = torch.cat([counts, real.to(torch.int32)], 1).gather(1, order).cumsum(1)
            before = torch.where(first, torch.nn.functional.pad(sums[:, :-1], (1, 0)), sums[:, -1:])
            after = torch.cat([before[:, 1:], sums[:, -1:]], 1).flip(1).cummin(1).values.flip(1)
            counts = torch.where(first, after - before, 0).to(torch.int32)
        # Those that stay move to the front, in their order.
        kept = torch.where(first, ids, EMPTY).sort(stable=True, dim=1)
        size = self.ids.shape[1]
        return self._replace(
            ids=kept.values[:, :size].contiguous(),
            counts=counts.gather(1, kept.indices)[:, :size].contiguous() if counts.shape[1] else counts,
            # Without room for all, the greatest ids are gone.
            number=first.sum(1).clamp(max=size),
        )


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
