"""Rows of registered processors: those with equal configurations are gathered, processed together and scattered.

Such a processor needs no neutral state, because it never sees the rows of other processors. It gets the context that its rows
would have alone. If it fails, only the rows that it fails for are ended; calls for single rows find them.
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
from logitkit.protocol.context import Context, concatenate_context, context_to, select_context
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
        rows: Their numbers in the batch.
        at: [K] int64 on the batch's device, their rows of logits and tokens.
        failed: For each row, whether the processor has failed. Such a row only ends.
        eos_ids: The ids that end a row. Without any, an error of the processor is raised.
    """

    runs: Processor[Any]
    state: Any
    context: Context
    rows: tuple[int, ...]
    at: Tensor
    failed: tuple[bool, ...]
    eos_ids: tuple[int, ...]

    def select(self, which: Sequence[int], rows: Sequence[int], at: Tensor) -> Gathered:
        """Return some of the rows, with new places in a batch; rows may repeat.

        Args:
            which: Indices into `rows`.
            rows: Their new numbers.
            at: Their new rows of logits.
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
        return self._replace(state=to(self.state, device), context=context_to(self.context, device))

    def advance(self, tokens: Tensor) -> Gathered:
        """Return the rows after committed tokens, [B] or [B, T], of all rows of the batch."""

        def after(part: Gathered) -> Gathered:
            own = tokens.index_select(0, part.at).to(part.context.device)
            context = part.context.at(part.context.lengths + count_tokens(own))
            return part._replace(state=advance_checked(part.runs, part.state, own), context=context)

        parts = self._each(after, lambda part: part._replace(failed=(True,)))
        return joined(parts)._replace(at=self.at)

    def process_logits(self, logits: Tensor) -> Tensor:
        """Return the logits of the batch, [B, V], with those of these rows processed."""

        def processed(part: Gathered) -> Tensor:
            own, context = logits.index_select(0, part.at).to(part.context.device), part.context
            if context.vocabulary_size != own.shape[1]:
                context = replace(context, vocabulary_size=own.shape[1])
            found = process_checked(part.runs, part.state, own, context)
            return end_rows(found, self.eos_ids)[0] if self.eos_ids and may_empty_rows(part.runs) else found

        def ended(part: Gathered) -> Tensor:
            return end_rows(torch.full_like(logits[:1], -torch.inf, device=part.context.device), self.eos_ids)[0]

        found = self._each(processed, ended)
        result = found[0] if len(found) == 1 else torch.cat(found)
        return logits.index_copy_(0, self.at, result.to(logits.device))

    def _each(self, call: Callable[[Gathered], T], ended: Callable[[Gathered], T]) -> list[T]:
        """Make a call for all rows together or, if that fails, for each row alone.

        Args:
            call: The call.
            ended: Returns the result for a row that fails alone, or has failed before.
        """
        if not any(self.failed):
            try:
                return [call(self)]
            except Exception:
                if not self.eos_ids:
                    raise
        return [self._alone(row, call, ended) for row in range(len(self.rows))]

    def _alone(self, row: int, call: Callable[[Gathered], T], ended: Callable[[Gathered], T]) -> T:
        part = self.select([row], self.rows[row : row + 1], self.at[row : row + 1])
        if not self.failed[row]:
            try:
                return call(part)
            except Exception as error:  # noqa: BLE001 - whatever the processor raises
                _log(self.runs, error)
        return ended(part)


def joined(parts: Sequence[Gathered]) -> Gathered:
    """Return the rows of parts with equal configurations together; the caller sets `at`."""
    if len(parts) == 1:
        return parts[0]
    first = next((part for part in parts if not all(part.failed)), parts[0])
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
        _log(first.runs, error)
        return whole._replace(state=(), failed=(True,) * len(whole.rows))


def _state_beside(part: Gathered, first: Gathered) -> Any:
    """Return the state of a part. If all its rows have failed, its state may be damaged: return rows of the first part."""
    if part is first or not all(part.failed):
        return part.state
    return select(first.state, torch.zeros(len(part.rows), dtype=torch.int64, device=first.context.device))


def _log(runs: Processor[Any], error: Exception) -> None:
    _logger.error("%s failed; a request that asks for it is ended", name_of(runs), exc_info=error)
