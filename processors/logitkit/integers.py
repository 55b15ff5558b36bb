"""What counts as an integer argument: int, and the integers of numpy and torch, which tokenizers and configurations give."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

__all__ = ["as_integer"]


def as_integer(given: object) -> int | None:
    """Return an integer as an int; None for all else, booleans and whole floats too.

    Args:
        given: An int, or an integer scalar of numpy or torch.

    Example:
        >>> import torch
        >>> as_integer(torch.tensor(3)), as_integer(True), as_integer(3.0)
        (3, None, None)
    """
    if type(given) is int:
        return given
    # Booleans of numpy and torch know their dtype; torch's would pass for 0 and 1.
    boolean = isinstance(given, bool) or str(getattr(given, "dtype", "")).removeprefix("torch.") == "bool"
    if boolean or not isinstance(given, SupportsIndex):
        return None
    try:
        return index(given)
    except (TypeError, ValueError, RuntimeError):
        return None
