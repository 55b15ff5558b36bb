"""Rows of logits on the CPU as numpy arrays, on the same memory: broken logits, likely logits, and exponentials."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from torch import Tensor

from logitkit.errors import BrokenLogits, VocabularyError

__all__ = [
    "BITS",
    "as_array",
    "check_left",
    "check_row",
    "check_width",
    "drop_nan",
    "exponentials",
    "fill",
    "ids_from",
    "is_broken",
    "why_broken",
]

# Models pad their vocabularies for speed, by at most this many columns or this share of all columns.
MOST_PADDING = 1024
SHARE = 64


def check_width(size: int, columns: int) -> None:
    """Raise `VocabularyError` if logits have fewer columns than a vocabulary has ids, or more than padding explains.

    Args:
        size: The number of ids of the vocabulary.
        columns: The number of columns of the logits.
    """
    if columns < size:
        raise VocabularyError(
            f"the logits have {columns} columns, but the vocabulary has {size} ids: it belongs to another model"
        )
    if columns - size > MOST_PADDING and (columns - size) * SHARE > columns:
        raise VocabularyError(
            f"the logits have {columns} columns, but the vocabulary has {size} ids; the other {columns - size} are too many to "
            "be padding, so it belongs to another model. If this model has that many unused ids, build the vocabulary with "
            f"size={columns}"
        )


# numpy has no bfloat16 and is slow on float16, but masks can operate on the bits of both.
BITS = {torch.float16: (0xFC00, 0x0000), torch.bfloat16: (0xFF80, 0x0000)}

# A row is filled from a block that stays in the processor's fastest cache.
BLOCK_BYTES = 2**15

# Up to this stride, as in llama.cpp's candidates, a row is read including the numbers in between.
CLOSE = 4

# From this number of columns on, numpy finds the greatest number sooner than its place.
LONG = 2**16

# If the greatest score is between the first two, the exponentials of scores need no shift: a sum of millions does not overflow.
# That of a score below the third one is then nothing beside the greatest. Torch takes several times as long for that of -inf.
LOW, HIGH, NEGLIGIBLE = -16, 64, -86


@lru_cache(maxsize=8)
def _block(dtype: np.dtype[Any], value: Any) -> NDArray[Any]:
    return np.full(BLOCK_BYTES // dtype.itemsize, value, dtype)


def fill(row: NDArray[Any], value: Any) -> None:
    """Set all numbers of a row, of any stride, to a value, in half to two thirds of the time of numpy's `fill`."""
    block = _block(row.dtype, value)
    whole = len(row) - len(row) % len(block)
    row[:whole].reshape(-1, len(block))[:] = block
    row[whole:] = value


def as_array(logits: Tensor) -> tuple[NDArray[Any], Any, Any]:
    """View logits on the CPU as an array, without a copy.

    Returns:
        The array (for 16-bit dtypes, its bits as uint16), and the representations of -inf and 0 in it.
    """
    if logits.dtype == torch.float32 and not logits.requires_grad:
        return logits.numpy(), -np.inf, 0.0
    if logits.dtype in BITS:
        never, zero = BITS[logits.dtype]
        return logits.detach().view(torch.uint16).numpy(), never, zero
    return logits.detach().numpy(), -np.inf, 0.0


def _greatest(row: NDArray[Any]) -> Any:
    """Return the greatest number of a row of at least 32 bits, with at least one column; NaN if any of them is NaN.

    For a row with a stride, these may include the numbers between its columns.
    """
    read, stride = row, row.strides[0]
    if stride != row.itemsize:
        step, rest = divmod(stride, row.itemsize)
        if 1 < step <= CLOSE and not rest:
            # Faster than skipping the numbers in between.
            read = as_strided(row, (step * (len(row) - 1) + 1,), (row.itemsize,))
    return np.maximum.reduce(read) if len(read) >= LONG else read.item(read.argmax())


def drop_nan(row: NDArray[Any], never: Any) -> bool:
    """Replace NaN, which is very rare, with -inf, and return whether there was any; see `as_array` for the arguments.

    Detecting NaN takes a tenth of the time of replacing it: the maximum of some numbers is NaN if any of them is.
    """
    if not len(row):
        return False
    if row.dtype == np.uint16:
        # Without the sign, only the bits of NaN are greater than those of infinity.
        size = row & 0x7FFF
        found = bool(size.max() > never & 0x7FFF)
        if found:
            row[size > never & 0x7FFF] = never
        return found
    top = _greatest(row)
    found = bool(top != top)
    if found:
        np.fmax(row, never, out=row)
    return found


def is_broken(row: NDArray[Any], never: Any) -> bool:
    """Return whether a row of logits on the host is broken; see `as_array` for the arguments."""
    if not len(row):
        return False
    if row.dtype != np.uint16:
        top = _greatest(row)
        if row.strides[0] != row.itemsize and not (top < np.inf and row[0] > -np.inf):
            # That includes the numbers between llama.cpp's logits.
            top = np.maximum.reduce(row)
        return not -np.inf < top < np.inf
    # As unsigned numbers, only negative NaN is above -inf; as signed ones, +inf and NaN are above all other numbers.
    signed = row.view(np.int16)
    top = int(signed.max())
    if top >= never & 0x7FFF or row.max() > never:
        return True
    # Signed, all negative numbers are below -inf.
    return top == never - 2**16 and bool((row == never).all())


def check_row(row: NDArray[Any], never: Any, number: int) -> None:
    """Check a row of logits on the host before anything changes it.

    Args:
        row: [V] the row; see `as_array`.
        never: -inf, as it is in the row.
        number: Its number in the batch, for the error.

    Raises:
        BrokenLogits: It is broken.
    """
    if is_broken(row, never):
        raise BrokenLogits(_why(row, never), number)


def check_left(row: NDArray[Any], never: Any, number: int) -> None:
    """Check the logits that a mask leaves in a row, which may be none; the arguments are those of `check_row`.

    Raises:
        BrokenLogits: One of them is NaN or +inf.
    """
    if is_broken(row, never) and not (row == never).all():
        raise BrokenLogits(_why(row, never), number)


def why_broken(values: Tensor) -> str:
    """Return what is wrong with the broken logits of a row, [V], in words."""
    counts = {"NaN": int(values.isnan().sum()), "+inf": int((values == torch.inf).sum())}
    found = [f"{count:,} of {len(values):,} are {name}" for name, count in counts.items() if count]
    return " and ".join(found) or f"all {len(values):,} are -inf"


def _why(row: NDArray[Any], never: Any) -> str:
    values = torch.from_numpy(np.ascontiguousarray(row))
    if row.dtype == np.uint16:
        values = values.view(next(dtype for dtype, (bits, _) in BITS.items() if bits == never))
    return why_broken(values)


def exponentials(scores: Tensor, top: float, room: Tensor | None = None) -> tuple[Tensor, float]:
    """Return exponentials of scores, up to a factor, and the greatest one, in 60 % of the time of a softmax on the CPU.

    Args:
        scores: [V] of at least 32 bits.
        top: The greatest one, not -inf. With NaN or +inf, all are NaN.
        room: [V] of the same dtype, which may be overwritten, or None.

    Example:
        >>> found, greatest = exponentials(torch.tensor([0.0, 1.0, 3.0]), 3.0)
        >>> found / greatest
        tensor([0.0498, 0.1353, 1.0000])
    """
    shift = 0.0 if LOW < top < HIGH else top
    shifted = torch.sub(scores, shift, out=room) if shift else scores
    return torch.clamp(shifted, min=NEGLIGIBLE, out=room).exp_(), math.exp(top - shift)


def ids_from(scores: NDArray[Any], least: float, most: int) -> NDArray[np.intp] | None:
    """Return the ids of all scores from a number on, rising; if they are few, in half the time of `np.flatnonzero`.

    Args:
        scores: [V].
        least: The number.
        most: The maximum number of ids; with more, None is returned.

    Example:
        >>> ids_from(np.array([2.0, 0.0, 1.0]), 1.0, most=2)
        array([0, 2])
    """
    columns = len(scores)
    there = np.zeros(columns + -columns % 8, np.bool_)
    np.greater_equal(scores, least, out=there[:columns])
    if np.count_nonzero(there) > most:
        return None
    # Eight at a time, of which most have none.
    eights = np.flatnonzero(there.view(np.uint64) != 0)
    found = np.flatnonzero(there.reshape(-1, 8)[eights])
    ids: NDArray[np.intp] = 8 * eights[found >> 3] + (found & 7)
    return ids
