"""Whether elements of an array share memory."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["overlaps"]


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
