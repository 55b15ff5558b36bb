"""Arrays as lists of numbers, and whether elements of an array share memory."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError

__all__ = ["from_torch", "overlaps", "shape_of", "to_torch"]

DIMENSIONS = 8  # a limit, because a list may contain itself


def to_torch(array: list[Any], *, writing: bool) -> tuple[Tensor, bool, None]:
    """Return a tensor of a list's numbers, True because it is a copy, and None.

    Args:
        array: A row, or rows of equal lengths.
        writing: Whether they are logits, which become float64; otherwise they are ids.

    Raises:
        ConfigurationError: The list contains something else; or it is a list subclass of logits, which the result could not be
            converted back to.
    """
    first: Any = array
    for _ in shape_of(array):
        first = first[0] if first else 0
    rows = [array, *(row for row in array if isinstance(row, list))]
    for row in rows if writing else ():
        if type(row) is not list:
            raise ConfigurationError(
                f"a {type(row).__name__} of {len(row)} is an instance of a subclass; give a plain list"
            )
    if not isinstance(first, Real) or (writing and isinstance(first, bool)):
        raise ConfigurationError(
            f"a list of shape {list(shape_of(array))} holds a {type(first).__name__}; allowed are numbers, and lists of numbers"
        )
    try:
        found = torch.tensor(array, dtype=torch.float64 if writing else None)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ConfigurationError(
            f"a list of shape {list(shape_of(array))} contains something other than numbers in rows of equal lengths: {error}"
        ) from error
    # If the first row is empty, torch silently ignores the other rows.
    if tuple(found.shape) != shape_of(array) or (not found.numel() and any(rows[1:])):
        raise ConfigurationError(
            f"a list of shape {list(shape_of(array))} contains arrays, tuples, texts, or rows of different lengths, which turn "
            f"it into {list(found.shape)}; allowed are numbers, and lists of numbers of equal length"
        )
    return found if found.numel() or writing else found.long(), True, None


def from_torch(tensor: Tensor, like: list[Any]) -> tuple[list[Any], bool]:
    """Return a list of floats, nested like the given one, and True: it is a copy."""
    nested = bool(like) and isinstance(like[0], list)
    return (tensor if nested else tensor.reshape(-1)).tolist(), True


def shape_of(array: Any) -> tuple[int, ...]:
    """Return the shape of a list, assuming rows as long as the first; at most `DIMENSIONS` dimensions.

    Example:
        >>> shape_of([[1, 2, 3], [4, 5, 6]])
        (2, 3)
    """
    shape: list[int] = []
    while isinstance(array, list) and len(shape) < DIMENSIONS:
        shape.append(len(array))
        array = array[0] if array else None
    return tuple(shape)


def overlaps(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether elements may share memory, so that writing one would change another.

    Args:
        shape: The number of elements in each dimension.
        strides: The distance between elements in each dimension, not negative.
        itemsize: The size of an element, in the unit of the strides.

    Example:
        >>> overlaps((2, 3), (3, 1), 1), overlaps((2, 3), (1, 1), 1), overlaps((2, 3), (0, 1), 1)
        (False, True, True)
    """
    reach = itemsize
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1 and stride < reach:
            return 0 not in shape
        reach += stride * max(size - 1, 0)
    return False
