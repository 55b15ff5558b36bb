"""The stacks of rows on the host, as bytes: the memory of a row of the tensor of stacks.

Bytes are quick to compare and to look up, and most tokens do not change the stack.

By hand: the stack with the frames 7 and 9 and room for three is the bytes of the int32 numbers 7, 9 and 0.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

__all__ = ["Packed", "frames_of", "packed", "rows_of", "stacks_of"]

# The frames of a row as int32, the outermost first, then 0.
Packed: TypeAlias = bytes

FRAME_BYTES = 4


def rows_of(stacks: Tensor) -> list[Packed]:
    """Return the rows of [B, D] int32 on the CPU."""
    array = stacks.numpy()
    rows, depth = array.shape
    memory = array.tobytes()
    width = FRAME_BYTES * depth
    return [memory[at : at + width] for at in range(0, len(memory), width)] if width else [b""] * rows


def stacks_of(rows: Sequence[Packed], depth: int) -> Tensor:
    """Return rows with room for `depth` frames as [B, depth] int32."""
    return torch.from_numpy(np.ndarray((len(rows), depth), np.int32, bytearray(b"".join(rows))))


def frames_of(row: Packed) -> tuple[int, ...]:
    """Return the frames on a stack, the innermost last."""
    frames = tuple(array("i", row))
    return frames[: frames.index(0)] if 0 in frames else frames


def packed(frames: tuple[int, ...], width: int) -> Packed:
    """Return the row of `width` bytes with these frames."""
    return array("i", frames).tobytes().ljust(width, b"\0")
