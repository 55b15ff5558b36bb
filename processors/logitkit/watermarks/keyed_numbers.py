"""Random numbers of 53 bits for each token that may follow a context: hashes of a secret key, the context and the token.

The key 7 and the context (5, 9) give the start h = mix(mix(mix(7) ^ 5) ^ 9), where each step also adds a constant. The token 3
then has the number mix(h ^ 3), without its last 11 bits. So a detector that knows the key computes the same numbers from the
text.

`mix` is the function of SplitMix64, which is fast and statistically sound, but it is not a cryptographic one: hide the numbers,
not only the key. Two implementations return the same numbers, one in numpy and one in tensors.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.sampling.counter_random import BITS, STEP, mix_rows, mix_tensors, shifted, signed

__all__ = ["NUMBERS", "hash_contexts", "numbers_of", "row_numbers"]

# How many numbers there are.
NUMBERS = 1 << BITS


def hash_contexts(key: Tensor, contexts: Tensor, width: Tensor) -> Tensor:
    """Return the hash of each context, from which its numbers follow.

    Args:
        key: [B] int64.
        contexts: [B, N, W] integers, the newest token first.
        width: [B] int64, how many tokens of a context count: the newest ones, at most W.

    Returns:
        [B, N] int64.

    Example:
        >>> one = torch.tensor([1])
        >>> tokens = torch.tensor([[[9, 5], [9, 6]]])
        >>> alike = hash_contexts(one, tokens, one)
        >>> bool(alike[0, 0] == alike[0, 1]), hash_contexts(one, tokens, 2 * one).unique().shape
        (True, torch.Size([2]))
    """
    mixed = mix_tensors(key + signed(STEP))[:, None].expand(contexts.shape[:2])
    for back in reversed(range(contexts.shape[2])):
        after = mix_tensors((mixed ^ contexts[:, :, back].to(torch.int64)) + signed(STEP))
        mixed = torch.where(back < width[:, None], after, mixed)
    return mixed


def numbers_of(hashes: Tensor, tokens: Tensor) -> Tensor:
    """Return the number of each token after a context, from 0 to 2**53 - 1; all int64, of shapes that can be broadcast."""
    return shifted(mix_tensors((hashes ^ tokens) + signed(STEP)), 64 - BITS)


def row_numbers(hashed: int, ids: NDArray[np.integer] | int) -> NDArray[np.uint64]:
    """Return the numbers of some tokens after a context, on the CPU.

    Args:
        hashed: The hash of the context.
        ids: [N] token ids, or N for the first N ids.
    """
    tokens = _first_ids(ids) if isinstance(ids, int) else ids.astype(np.uint64)
    return mix_rows((tokens ^ np.int64(hashed).view(np.uint64)) + np.uint64(STEP)) >> np.uint64(64 - BITS)


@lru_cache(maxsize=4)
def _first_ids(count: int) -> NDArray[np.uint64]:
    ids = np.arange(count, dtype=np.uint64)
    ids.flags.writeable = False
    return ids
