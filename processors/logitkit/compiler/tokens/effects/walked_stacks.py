"""The stacks of brackets that walks through an automaton have opened, numbered."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["EMPTY", "WalkedStacks"]

Ints = NDArray[np.int64]

# The stack without frames.
EMPTY = 0


class WalkedStacks:
    """Numbers stacks from 0 on, in the order in which they are met.

    Args:
        uncounted: [F] bool, the frames that do not count as height.
    """

    def __init__(self, uncounted: NDArray[np.bool_]) -> None:
        self._counts: list[int] = (~uncounted).astype(np.int64).tolist()
        self._below, self._top, self._height = [EMPTY], [0], [0]
        self._number: dict[tuple[int, int], int] = {}

    def pushed(self, stacks: Ints, frames: Ints) -> tuple[list[int], list[int]]:
        """Return the stacks with one more frame each, and their heights."""
        pairs = [*zip(stacks.tolist(), frames.tolist(), strict=True)]
        for stack, frame in sorted({*pairs}.difference(self._number)):
            self._number[stack, frame] = len(self._below)
            self._below.append(stack)
            self._top.append(frame)
            self._height.append(self._height[stack] + self._counts[frame])
        found = [self._number[pair] for pair in pairs]
        return found, [self._height[stack] for stack in found]

    def popped(self, stacks: Ints) -> tuple[list[int], list[int]]:
        """Return the stacks without their last frames, and these frames."""
        numbers = stacks.tolist()
        return [self._below[stack] for stack in numbers], [self._top[stack] for stack in numbers]

    def frames(self, stack: int) -> tuple[int, ...]:
        """Return the frames of a stack, the outermost first."""
        found = []
        while stack != EMPTY:
            found.append(self._top[stack])
            stack = self._below[stack]
        return tuple(found[::-1])
