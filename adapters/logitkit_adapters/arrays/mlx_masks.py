"""The mask of a row as an mlx operation, computed together with the logits, so that nothing waits for them."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import mlx.core as mx
import numpy as np

from logitkit.runtime.row_mask import RowMask

__all__ = ["is_row", "masked", "memory_of"]

FLOATS = (mx.float32, mx.float16, mx.bfloat16)
INTEGERS = {mx.int32: 4, mx.int64: 8}

# For each mask in use, by dtype and width: the allowed ids, [W] bool, and the logits of a row that ends, [W].
_arrays: WeakKeyDictionary[RowMask, dict[tuple[Any, int], tuple[mx.array, mx.array]]] = WeakKeyDictionary()


def is_row(tokens: Any, logits: Any) -> bool:
    """Whether arrays are the tokens, [L], and the logits, [1, V], of one mlx sequence."""
    return (
        isinstance(tokens, mx.array)
        and isinstance(logits, mx.array)
        and tokens.ndim == 1
        and tokens.dtype in INTEGERS
        and logits.ndim == 2
        and logits.shape[0] == 1
        and logits.dtype in FLOATS
    )


def memory_of(tokens: mx.array) -> tuple[bytes, int]:
    """Return the memory of token ids, which makes mlx compute them, and the number of bytes per id."""
    memory: Any = tokens
    return memoryview(memory).tobytes(), INTEGERS[tokens.dtype]


def masked(mask: RowMask | None, logits: mx.array) -> tuple[mx.array, mx.array]:
    """Return the logits masked as by `RowMask.apply`, and whether they are sound, without computing either yet.

    Broken logits cannot be an error here, because nothing is read: the row ends instead.

    Args:
        mask: The mask; None allows everything.
        logits: [1, W], at least as wide as the mask.

    Returns:
        [1, W], and one bool, which is computed together with it.
    """
    # The maximum is NaN if any of them is NaN.
    sound = mx.abs(mx.max(logits)) < np.inf
    if mask is None:
        return logits, sound
    legal, ended = _arrays_of(mask, logits)
    never = mx.array(-np.inf, logits.dtype)
    left = mx.where(legal, logits, never)
    if mask.is_end:
        # The logits of a row that has ended do not matter.
        left, sound = mx.where(left == left, left, never), mx.array(True)
    return mx.where(mx.logical_and(sound, mx.max(left) > never), left, ended), sound


def _arrays_of(mask: RowMask, logits: mx.array) -> tuple[mx.array, mx.array]:
    known, key = _arrays.setdefault(mask, {}), (logits.dtype, logits.shape[1])
    found = known.get(key)
    if found is None:
        legal = np.zeros(logits.shape[1], np.bool_)
        legal[: mask.size] = mask.legal()
        ended = np.full(logits.shape[1], -np.inf, np.float32)
        ended[mask.forced] = 0
        found = known[key] = mx.array(legal), mx.array(ended).astype(logits.dtype)
    return found
