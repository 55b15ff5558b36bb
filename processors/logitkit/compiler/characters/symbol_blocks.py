"""Sets of symbols as bit masks, and how overlapping ones are cut into disjoint blocks.

A state reads `a` or `b` at one position, and `b` or `c` at another: then `a`, `b` and `c` each lead somewhere else.
"""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["Blocks", "are_disjoint", "shared_symbols", "split"]

# Disjoint sets of symbols, each with the indices of the sets that hold it.
Blocks: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]


def are_disjoint(future: tuple[int, ...], masks: list[int]) -> bool:
    """Whether no two of some positions read the same symbol."""
    union = 0
    for position in future:
        if union & masks[position]:
            return False
        union |= masks[position]
    return True


def shared_symbols(masks: tuple[int, ...]) -> int:
    """Return the symbols that several sets hold."""
    union = 0
    shared = 0
    for mask in masks:
        shared |= union & mask
        union |= mask
    return shared


def split(masks: tuple[int, ...]) -> Blocks:
    """Cut overlapping sets of symbols into disjoint blocks, each with the indices of the sets that hold it.

    Example:
        >>> split((0b011, 0b110))
        ((1, (0,)), (2, (0, 1)), (4, (1,)))
    """
    overlap = shared_symbols(masks)
    blocks: dict[tuple[int, ...], int] = {}
    for index, mask in enumerate(masks):
        alone = mask & ~overlap
        if alone:
            blocks[(index,)] = alone
    while overlap:
        symbol = overlap & -overlap
        overlap ^= symbol
        members = tuple(i for i, m in enumerate(masks) if m & symbol)
        blocks[members] = blocks.get(members, 0) | symbol
    return tuple((block, members) for members, block in sorted(blocks.items()))
