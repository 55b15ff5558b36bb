"""The rows of logits on the CPU that a truncation works on, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from logitkit.runtime.host_logits import keep_only
from logitkit.runtime.row_mask import as_array

__all__ = ["HostRow", "host_rows"]


@dataclass(slots=True)
class HostRow:
    """A row that has something to choose from.

    Args:
        line: [V] the logits, of which those not kept will be overwritten; as bits, for dtypes of 16 bits.
        never: What -inf is in `line`.
        scores: [V] float32 (or float64), not to be written: the logits, without NaN and +inf.
        top: The greatest score, finite.
    """

    line: NDArray[Any]
    never: Any
    scores: NDArray[Any]
    top: float

    def keep(self, ids: NDArray[np.intp]) -> None:
        """Set all logits but those of some ids to -inf."""
        keep_only(self.line, ids, self.never)


def host_rows(logits: Tensor, active: Sequence[bool]) -> Iterator[tuple[int, HostRow]]:
    """Go through the active rows of logits that are not all at -inf.

    A logit that is NaN is set to -inf. Where some are at +inf, they share all probability, as they would in the limit.

    Args:
        logits: [B, V] floating point on the CPU.
        active: For each row, whether it is to be changed at all.

    Yields:
        The number of a row, and the row.
    """
    array, never, _ = as_array(logits)
    for row, wanted in enumerate(active):
        if not wanted:
            continue
        line = array[row]
        scores = logits[row].detach().float().numpy() if logits.dtype.itemsize == 2 else line
        top = scores.max()
        if np.isnan(top):
            missing = np.isnan(scores)
            line[missing] = never
            scores = np.where(missing, -np.inf, scores).astype(scores.dtype)
            top = scores.max()
        if top == np.inf:
            scores = np.where(scores == np.inf, 0, -np.inf).astype(scores.dtype)
            top = scores.max()
        if top > -np.inf:
            yield row, HostRow(line, never, scores, float(top))
