"""The mask of rows that may only end, and of rows that have ended."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from logitkit.runtime.logit_arrays import as_array
from logitkit.runtime.row_mask import RowMask, finished_ids
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["mask_ended_rows", "mask_ended_tensors"]


def mask_ended_rows(vocabulary: Vocabulary, ending: Sequence[int], ended: Sequence[int], logits: Tensor) -> Tensor:
    """Allow only EOS in rows that must end, and only EOS and padding in rows that have ended; in place, on the host.

    A row without any token left, since another processor masked these, gets EOS at logit 0.

    Args:
        vocabulary: The vocabulary.
        ending: The numbers of the rows that must end.
        ended: Those of the rows that have ended.
        logits: [B, W] floating point, W at least the size of the vocabulary.
    """
    ends = np.array(vocabulary.eos_ids, np.int64)
    array, never, zero = as_array(logits)
    for rows, allowed in ((ending, ends), (ended, finished_ids(vocabulary.eos_ids, vocabulary.pad_id))):
        for row in rows:
            RowMask(vocabulary.size, ends, allowed, allowed=allowed).apply(array[row], never, zero)
    return logits


def mask_ended_tensors(vocabulary: Vocabulary, ending: Tensor, ended: Tensor, logits: Tensor) -> Tensor:
    """Like `mask_ended_rows`, with tensors only; the rows are [B] bool."""
    over, never = ending | ended, -torch.inf
    # Column by column: a list of ids would be copied to the device, and the host would wait for that.
    ends, pad = vocabulary.eos_ids, vocabulary.pad_id
    given = {i: logits.select(1, i).clone() for i in (*ends, *(() if pad is None else (pad,)))}
    kept = {i: torch.where(column.isnan(), never, column) for i, column in given.items()}
    if pad is not None and pad not in ends:
        kept[pad] = torch.where(ending, never, kept[pad])
    empty = torch.stack([column == never for column in kept.values()]).all(0)
    logits = logits.masked_fill_(over[:, None], never)
    for i, column in given.items():
        value = torch.where(empty, 0.0, kept[i]) if i in ends else kept[i]
        logits.select(1, i).copy_(torch.where(over, value, column))
    return logits
