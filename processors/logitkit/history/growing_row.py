"""The state of one row that nearly always grows by a token: what `HistoryResolver` finds, with less to look at."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from logitkit.context import Context
from logitkit.history.resolver import HistoryResolver
from logitkit.processor import Processor

__all__ = ["GrowingRow"]

S = TypeVar("S")


class GrowingRow(Generic[S]):
    """Keep the state of a row of one generation on the CPU.

    All that is no continuation of the ids shown last, such as a text taken back, is left to a `HistoryResolver`.

    Args:
        processor: Whose state is wanted.
        resolver: What begins the row; it is told the prompt, so that a row may grow by several tokens.

    Example:
        >>> import logitkit as lk
        >>> penalty = lk.RepetitionPenalty(2.0)
        >>> row = GrowingRow(penalty, HistoryResolver(penalty, prompt=torch.tensor([[4]])))
        >>> for ids in ([4], [4, 1], [4, 1, 3]):
        ...     state, context = row.resolve(np.array(ids), vocabulary_size=5)
        >>> state.history.length.tolist(), context.lengths.tolist()
        ([3], [3])
    """

    def __init__(self, processor: Processor[S], resolver: HistoryResolver[S]) -> None:
        self._processor, self._resolver = processor, resolver
        self._known: NDArray[Any] = np.empty(0, np.int64)
        self._count = 0
        self._last: tuple[S, Context] | None = None

    def resolve(self, ids: NDArray[Any], *, vocabulary_size: int) -> tuple[S, Context]:
        """Return the state and the context of the row.

        Args:
            ids: [L] int32 or int64, all token ids, prompt and pads included. Nothing refers to it afterwards.
            vocabulary_size: Columns of the logits.

        Raises:
            ConfigurationError: The ids do not begin with the prompt, or are negative.
        """
        count, last = self._count, self._last
        if (
            last is not None
            and len(ids) > count
            and last[1].vocabulary_size == vocabulary_size
            and ids[count:].min() >= 0
            and (ids[:count] == self._known[:count]).all()
        ):
            state, context = last
            new, more = torch.from_numpy(ids[count:].astype(np.int64)), len(ids) - count
            after = self._processor.advance(state, new if more == 1 else new[None])
            found = after, context.at(context.lengths + more)
        else:
            found, count = self._resolver.resolve(torch.from_numpy(ids)[None], vocabulary_size=vocabulary_size), 0
        # Only now, when no processor can fail any more, does anything change.
        self._remember(ids, count)
        self._last = found
        return found

    def _remember(self, ids: NDArray[Any], count: int) -> None:
        """Take over the ids from a place on; those before are equal."""
        if len(ids) > len(self._known):
            grown = np.empty(2 * len(ids), ids.dtype)
            grown[:count] = self._known[:count]
            self._known = grown
        self._known[count : len(ids)] = ids[count:]
        self._count = len(ids)
