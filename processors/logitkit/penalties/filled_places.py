"""Token ids at every place of a history, so that one gather and one scatter of fixed shape change the logits of its tokens."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["filled_places"]


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
