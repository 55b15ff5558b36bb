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

# For each mask in use, two arrays of [V]: the allowed ids, and the ids that end a row without any token left.
_arrays: WeakKeyDictionary[RowMask, tuple[mx.array, mx.array]] = WeakKeyDictionary()


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
    """Return the logits masked as by `RowMask.apply`, and whether they are broken, without computing either yet.

    Broken logits cannot be an error here, because nothing is read: the row ends instead.

    Args:
        mask: The mask; None allows everything.
        logits: [1, W], at least as wide as the mask.

    Returns:
        [1, W], and one bool, which is computed together with it.
    """
    # NaN if any of them is NaN.
    top = mx.max(logits)
    broken = mx.logical_not(mx.abs(top) < np.inf)
    if mask is None:
        return logits, broken
    arrays = _arrays.get(mask)
    if arrays is None:
        arrays = _arrays[mask] = mx.array(mask.legal()), mx.array(_ends(mask))
    legal, ends = (_wider(array, logits.shape[1]) for array in arrays)
    never = mx.array(-np.inf, logits.dtype)
    left = mx.where(legal, logits, never)
    ended = mx.where(ends, mx.array(0, logits.dtype), never)
    if mask.is_end:
        # The logits of a row that has ended do not matter.
        left, broken = mx.where(left == left, left, never), mx.array(False)
    return mx.where(mx.logical_or(broken, mx.max(left) == never), ended, left), broken


def _ends(mask: RowMask) -> Any:
    ends = np.zeros(mask.size, np.bool_)
    ends[mask.forced] = True
    return ends


def _wider(array: mx.array, width: int) -> mx.array:
    return array if array.shape[0] == width else mx.pad(array, (0, width - array.shape[0]))
