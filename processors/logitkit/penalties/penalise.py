"""Divide the positive and multiply the negative logits of tokens, row by row on the host or by tensors alone.

Both give what torch gives for `logits * penalty` and `logits / penalty` with a plain number as the penalty:
the operation is done in 32 bits at least, and rounded once. But a logit that was finite stays finite.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from logitkit.penalties.filled_places import filled_places
from logitkit.penalties.finite import finite_tensors
from logitkit.penalties.host_logits import HostLogits
from logitkit.token_history import TokenHistory

__all__ = ["penalise_rows", "penalise_tensors"]


def penalise_tensors(history: TokenHistory, penalty: Tensor, logits: Tensor) -> Tensor:
    """Change the logits of all tokens of the histories, in place.

    Args:
        history: The tokens of B rows.
        penalty: [B] float64.
        logits: [B, V] floating point.
    """
    if history.tokens.shape[1] == 0:
        return logits
    ids, some = filled_places(history.tokens, logits.shape[1])
    wide = torch.promote_types(logits.dtype, torch.float32)
    number = torch.where(some, penalty[:, None], 1.0).to(wide)
    said = logits.gather(1, ids).to(wide)
    changed = torch.where(said < 0, said * number, said / number)
    return logits.scatter_(1, ids, finite_tensors(said, changed, logits.dtype))


def penalise_rows(history: TokenHistory, penalty: Tensor, logits: Tensor) -> Tensor:
    """Change the logits of all tokens of the histories, in place; for the arguments see `penalise_tensors`.

    Only the places in use are looked at.

    Raises:
        VocabularyError: A token is none of the columns.
    """
    host = HostLogits.of(logits)
    with np.errstate(over="ignore"):
        for row, (ids, number) in enumerate(zip(history.rows(), penalty.tolist(), strict=True)):
            if len(ids) and number != 1:
                said = host.read(row, ids)
                host.write(row, ids, said, np.where(said < 0, said * number, said / number))
    return logits
