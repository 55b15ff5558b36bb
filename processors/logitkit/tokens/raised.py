"""An amount added to the logits of some tokens of each row, the same for all of them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.runtime.host_logits import HostLogits
from logitkit.runtime.tensor_logits import Places, finite_tensors

__all__ = ["raise_row", "raise_tensors"]


def raise_row(host: HostLogits, row: int, ids: NDArray[np.int32], amount: float) -> None:
    """Add an amount to the logits of some ids of a row, each once, on the CPU; finite logits stay finite.

    Args:
        host: The logits.
        row: The row.
        ids: [N], in any order; an id may occur several times.
        amount: The number to add; 0 changes nothing.
    """
    if amount != 0 and len(ids):
        given = host.read(row, ids)
        with np.errstate(over="ignore"):
            host.write(row, ids, given, given + given.dtype.type(amount))


def raise_tensors(logits: Tensor, ids: Tensor, amounts: Tensor) -> Tensor:
    """Do the same to all rows with tensors only, in place.

    Args:
        logits: [B, V] floating point.
        ids: [B, N] int32, in any order; negative numbers mean none.
        amounts: [B] float64.
    """
    if not ids.shape[1]:
        return logits
    places = Places.of(ids, logits.shape[1])
    given = logits.gather(1, places.at)
    wide = given.to(torch.promote_types(logits.dtype, torch.float32))
    raised = finite_tensors(wide, wide + amounts.to(wide.dtype)[:, None], logits.dtype)
    return logits.scatter_(1, places.at, torch.where(places.some & (amounts != 0)[:, None], raised, given))
