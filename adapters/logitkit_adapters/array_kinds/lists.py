"""Lists of numbers, or of lists of numbers, in torch and back."""

from __future__ import annotations

from numbers import Real
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError

__all__ = ["from_torch", "shape_of", "to_torch"]

DIMENSIONS = 8  # a list may hold itself


def to_torch(array: list[Any], *, writing: bool) -> tuple[Tensor, bool, None]:
    """Return a tensor of a list's numbers, True for a copy, and None.

    Args:
        array: Rows of equal lengths, or one.
        writing: Whether they are logits, which are float64; else they are ids.

    Raises:
        ConfigurationError: It holds something else; or these are logits, and it is of a subclass, in which no result could come
            back.
    """
    first: Any = array
    for _ in shape_of(array):
        first = first[0] if first else 0
    rows = [array, *(row for row in array if isinstance(row, list))]
    for row in rows if writing else ():
        if type(row) is not list:
            raise ConfigurationError(f"a {type(row).__name__} of {len(row)} is more than a list; give list")
    if not isinstance(first, Real) or (writing and isinstance(first, bool)):
        raise ConfigurationError(
            f"a list of shape {list(shape_of(array))} holds a {type(first).__name__}; allowed are numbers, and lists of numbers"
        )
    try:
        found = torch.tensor(array, dtype=torch.float64 if writing else None)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ConfigurationError(
            f"a list of shape {list(shape_of(array))} holds something else than numbers in rows of equal lengths: {error}"
        ) from error
    # Rows that are longer than an empty first one, torch leaves out.
    if tuple(found.shape) != shape_of(array) or (not found.numel() and any(rows[1:])):
        raise ConfigurationError(
            f"a list of shape {list(shape_of(array))} holds arrays, tuples, texts, or rows of several lengths, which make "
            f"{list(found.shape)} of it; allowed are numbers, and lists of as many numbers each"
        )
    return found if found.numel() or writing else found.long(), True, None


def from_torch(tensor: Tensor, like: list[Any]) -> tuple[list[Any], bool]:
    """Return a list of floats, or of lists of these as another is, and True: it is a copy."""
    nested = bool(like) and isinstance(like[0], list)
    return (tensor if nested else tensor.reshape(-1)).tolist(), True


def shape_of(array: Any) -> tuple[int, ...]:
    """Return the shape of a list, if its rows are of the length of the first; not more than so many dimensions.

    Example:
        >>> shape_of([[1, 2, 3], [4, 5, 6]])
        (2, 3)
    """
    shape: list[int] = []
    while isinstance(array, list) and len(shape) < DIMENSIONS:
        shape.append(len(array))
        array = array[0] if array else None
    return tuple(shape)
