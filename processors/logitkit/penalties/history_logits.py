"""Change the logits of the tokens in a history, on either path.

A change is worked out in 32 bits at least and rounded once. A logit that was finite stays finite.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.runtime.host_logits import HostLogits

__all__ = ["counts_of", "filled_places", "finite_tensors", "subtract_row", "subtract_tensors"]


def filled_places(tokens: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """Return ids that may be gathered and scattered: a place without a token repeats another of its row.

    What is written there is then only written twice. In a row without any token all places have id 0, of which the logit must
    be written back as it is.

    Args:
        tokens: [B, N] int32, N at least 1; negative where there is none. Ids that are no column count as none.
        columns: Columns of the logits.

    Returns:
        [B, N] int64 ids, and [B, 1] bool: whether the row has a token at all.
    """
    tokens = torch.where(tokens < columns, tokens, -1)
    some = tokens.amax(1, keepdim=True)
    return torch.where(tokens >= 0, tokens, some.clamp(min=0)).to(torch.int64), some >= 0


def counts_of(ids: Tensor, tokens: Tensor) -> Tensor:
    """Count some ids among the tokens of their row.

    Args:
        ids: [B, M] int64.
        tokens: [B, N] int32, in any order; those below 0 are none.

    Returns:
        [B, M] int64.

    Example:
        >>> counts_of(torch.tensor([[7, 8, 9]]), torch.tensor([[9, 7, 9, -1]])).tolist()
        [[1, 0, 2]]
    """
    ordered = tokens.to(torch.int64).sort(1).values
    return torch.searchsorted(ordered, ids, right=True) - torch.searchsorted(ordered, ids)


def finite_tensors(said: Tensor, changed: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the changed logits in `dtype`; those that were finite in `said` stay finite."""
    most = torch.finfo(dtype).max
    return changed.clamp(said.clamp(max=-most), said.clamp(min=most)).to(dtype)


def subtract_row(host: HostLogits, row: int, ids: NDArray[Any], penalty: NDArray[np.float32] | np.float32) -> None:
    """Lower the logits of a row's tokens, in place on the host.

    Args:
        host: The logits.
        row: The row.
        ids: [N] integers; of an id that occurs twice the last penalty counts.
        penalty: [N], or one for all.

    Raises:
        VocabularyError: An id is none of the columns.
    """
    said = host.read(row, ids)
    with np.errstate(over="ignore"):
        host.write(row, ids, said, said - penalty)


def subtract_tensors(ids: Tensor, penalty: Tensor, logits: Tensor) -> Tensor:
    """Lower the logits of tokens, in place.

    Args:
        ids: [B, N] int64, all of them columns; an id that occurs twice in a row must have the same penalty.
        penalty: [B, N] float32.
        logits: [B, V] floating point.
    """
    wide = torch.promote_types(logits.dtype, torch.float32)
    said = logits.gather(1, ids).to(wide)
    return logits.scatter_(1, ids, finite_tensors(said, said - penalty, logits.dtype))
