"""Divide the positive and multiply the negative logits of tokens, row by row on the host or by tensors alone.

Both give what torch gives for `logits * penalty` and `logits / penalty` with a plain number as the penalty:
the operation is done in 32 bits at least, and rounded once. But a logit that was finite stays finite.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.errors import VocabularyError
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
    # An empty place repeats a token of its row, which then is only written twice; a row without any token
    # writes the logit of token 0 back as it is.
    some = history.tokens.amax(1, keepdim=True)
    ids = torch.where(history.tokens >= 0, history.tokens, some.clamp(min=0)).to(torch.int64)
    wide = torch.promote_types(logits.dtype, torch.float32)
    number = torch.where(some >= 0, penalty[:, None], 1.0).to(wide)
    said = logits.gather(1, ids).to(wide)
    changed = torch.where(said < 0, said * number, said / number)
    most = torch.finfo(logits.dtype).max
    changed = changed.clamp(said.clamp(max=-most), said.clamp(min=most))
    return logits.scatter_(1, ids, changed.to(logits.dtype))


def penalise_rows(history: TokenHistory, penalty: Tensor, logits: Tensor) -> Tensor:
    """Change the logits of all tokens of the histories, in place; for the arguments see `penalise_tensors`.

    Only the places in use are looked at, and numpy gathers and scatters several times faster than torch does.

    Raises:
        VocabularyError: A token is none of the columns.
    """
    narrow = logits.dtype.itemsize == 2
    # numpy has no bfloat16, but can move its bits.
    array = logits.detach().view(torch.int16).numpy() if narrow else logits.detach().numpy()
    tokens = history.tokens.numpy()
    counts = torch.minimum(history.length, history.window).tolist()
    most = torch.finfo(logits.dtype).max
    with np.errstate(over="ignore"):
        for row, (count, number) in enumerate(zip(counts, penalty.tolist(), strict=True)):
            if count == 0 or number == 1:
                continue
            ids, line = tokens[row, :count], array[row]
            try:
                said = line.take(ids)
            except IndexError:
                raise VocabularyError(
                    f"row {row} has the token {ids.max()}, but the logits have {len(line)} columns: they belong "
                    "to another model"
                ) from None
            if narrow:
                wide = torch.from_numpy(said).view(logits.dtype).float()
                changed = torch.from_numpy(_penalised(wide.numpy(), number, most))
                line[ids] = changed.to(logits.dtype).view(torch.int16).numpy()
            else:
                line[ids] = _penalised(said, number, most)
    return logits


def _penalised(said: NDArray[Any], penalty: float, most: float) -> NDArray[Any]:
    changed: NDArray[Any] = np.where(said < 0, said * penalty, said / penalty)
    if not (np.abs(changed) <= most).all():
        changed = np.where(np.isfinite(said), changed.clip(-most, most), changed)
    return changed
