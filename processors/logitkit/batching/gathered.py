"""Rows of registered processors: those of equal configuration are gathered, processed together and scattered.

Nothing needs to be known of such a processor: rows of others never come to it, so it has no neutral state. It sees the true
context of its rows. Where it fails, the rows that it fails for are ended, each found by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from logitkit.composition.empty_rows import end_rows
from logitkit.protocol.calls import advance_checked, count_tokens, process_checked
from logitkit.protocol.context import Context, concatenate_context, select_context
from logitkit.protocol.declared import may_empty_rows
from logitkit.protocol.processor import Processor, name_of
from logitkit.protocol.state import concatenate, select, to

__all__ = ["Gathered", "joined"]

_logger = logging.getLogger(__name__)

T = TypeVar("T")


class Gathered(NamedTuple):
    """The rows of a batch that one processor serves.

    Args:
        runs: The processor.
        state: Its state, of K rows.
        context: The context of these rows.
        rows: The number of each in the batch.
        at: [K] int64 on the batch's device, the rows of logits and tokens that are theirs.
        failed: Whether the processor has failed for each: it only ends.
        eos_ids: The ids that end a row; without any, an error of the processor is raised.
    """

    runs: Processor[Any]
    state: Any
    context: Context
    rows: tuple[int, ...]
    at: Tensor
    failed: tuple[bool, ...]
    eos_ids: tuple[int, ...]

    def select(self, which: Sequence[int], rows: Sequence[int], at: Tensor) -> Gathered:
        """Return some of the rows, each at another place of a batch; rows may repeat.

        Args:
            which: Places in `rows`.
            rows: Their numbers from now on.
            at: Their rows of logits.
        """
        index = torch.tensor(list(which), dtype=torch.int64, device=self.context.device)
        return self._replace(
            state=select(self.state, index),
            context=select_context(self.context, index),
            rows=tuple(rows),
            at=at,
            failed=tuple(self.failed[place] for place in which),
        )

    def to(self, device: torch.device) -> Gathered:
        """Return the same rows on another device."""
        return self._replace(state=to(self.state, device), context=_moved(self.context, device), at=self.at.to(device))

    def advance(self, tokens: Tensor) -> Gathered:
        """Return the rows after committed tokens, [B] or [B, T], of all rows of the batch."""
        said = tokens.index_select(0, self.at).to(self.context.device)
        context = self.context.at(self.context.lengths + count_tokens(said))

        def after(part: Gathered, index: Tensor | None) -> Any:
            mine = said if index is None else said.index_select(0, index)
            return advance_checked(part.runs, part.state, mine)

        found = self._each(after)
        if len(found) == 1 and found[0][0] is None:
            return self._replace(state=found[0][1], context=context)
        good = {row: state for row, state in found if state is not None}
        states = [good[row] if row in good else self._one(row).state for row in range(len(self.rows))]
        failed = tuple(row not in good for row in range(len(self.rows)))
        return self._replace(state=concatenate(states), context=context, failed=failed)

    def process_logits(self, logits: Tensor) -> Tensor:
        """Return the logits of the batch, [B, V], with those of these rows processed; the others are kept as they are."""
        picked = logits.index_select(0, self.at).to(self.context.device)

        def processed(part: Gathered, index: Tensor | None) -> Tensor:
            # A copy, as what fails may have overwritten some of it.
            mine = picked.clone() if index is None else picked.index_select(0, index)
            context = part.context
            context = (
                context if context.vocabulary_size == mine.shape[1] else replace(context, vocabulary_size=mine.shape[1])
            )
            found = process_checked(part.runs, part.state, mine, context)
            return end_rows(found, self.eos_ids) if self.eos_ids and may_empty_rows(part.runs) else found

        found = self._each(processed)
        if len(found) == 1 and found[0][0] is None:
            result = found[0][1]
            assert result is not None
        else:
            only_ends = torch.full_like(picked, -torch.inf)
            only_ends[:, [i for i in self.eos_ids if i < picked.shape[1]]] = 0
            good = {row: one for row, one in found if one is not None}
            result = torch.cat(
                [good[row] if row in good else only_ends[row : row + 1] for row in range(len(self.rows))]
            )
        return logits.index_copy_(0, self.at, result.to(logits.device))

    def _each(self, call: Callable[[Gathered, Tensor | None], T]) -> list[tuple[int | None, T | None]]:
        """Make a call for all rows together, or if that fails, for each by itself.

        Returns:
            One result, of no row in particular; or the result of each row that has not failed before, None where it fails.
        """
        if not any(self.failed):
            try:
                return [(None, call(self, None))]
            except Exception as error:  # whatever it raises
                if not self.eos_ids:
                    raise
                if len(self.rows) == 1:
                    self._log(error)
                    return [(0, None)]
        found: list[tuple[int | None, T | None]] = []
        for row, failed in enumerate(self.failed):
            if failed:
                continue
            try:
                found.append((row, call(self._one(row), torch.tensor([row], device=self.context.device))))
            except Exception as error:  # noqa: BLE001 - whatever it raises
                self._log(error)
                found.append((row, None))
        return found

    def _one(self, row: int) -> Gathered:
        return self.select([row], self.rows[row : row + 1], self.at[row : row + 1])

    def _log(self, error: Exception) -> None:
        _logger.error("%s failed; a request that asks for it is ended", name_of(self.runs), exc_info=error)


def joined(parts: Sequence[Gathered]) -> Gathered:
    """Return the rows of several parts, which have equal configurations, together; the caller says where they are."""
    well = [part for part in parts if not all(part.failed)]
    first = (well or parts)[0]
    whole = first._replace(
        context=concatenate_context([part.context for part in parts]),
        rows=tuple(row for part in parts for row in part.rows),
        failed=tuple(failed for part in parts for failed in part.failed),
    )
    try:
        return whole._replace(state=concatenate([_state_beside(part, first) for part in parts]))
    except Exception as error:
        if not first.eos_ids:
            raise
        first._log(error)  # noqa: SLF001 - of this class
        return whole._replace(state=(), failed=(True,) * len(whole.rows))


def _state_beside(part: Gathered, well: Gathered) -> Any:
    """Return the state of a part; of one whose rows have all failed, any that goes with those that are well."""
    if part is well or not all(part.failed):
        return part.state
    return select(well.state, torch.zeros(len(part.rows), dtype=torch.int64, device=well.context.device))


def _moved(context: Context, device: torch.device) -> Context:
    there: dict[str, Any] = {"device": device}
    for name in ("prompt", "prompt_lengths", "lengths", "stream_ids", "max_lengths"):
        tensor = getattr(context, name)
        there[name] = None if tensor is None else tensor.to(device)
    return replace(context, **there)
