"""Subtract penalties from the logits of tokens, in 32 bits at least and rounded once; what was finite stays finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.penalties.finite import finite_tensors
from logitkit.penalties.host_logits import HostLogits

__all__ = ["subtract_row", "subtract_tensors"]


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
