"""How many programs mask each row of logits, and what they share.

With one program for each row, a few rows would leave most of a device idle. But each program computes the state of its row
again, so no row gets a second one if the device would not run them all at once, and none is without a block of columns.

By hand: if a device runs 1,056 programs at once, each row of 131,072 logits has 64 of them in a batch of 16, one for each block
of 2,048. In a batch of 32, each row has 33, and in one of 256, each has 4.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.kernels.kernel import Argument

__all__ = ["Parts", "programs_of_row"]

# Columns in a strip, and strips in a block; classes at a time. With these, each thread of a program has 16 columns at once.
STRIP, STRIPS, CLASSES_AT_A_TIME, WARPS = 512, 4, 512, 4

# Programs that each processor of a device runs at once, by their registers.
AT_ONCE = 8


@cache
def _programs(device: torch.device) -> int:
    """Return how many programs fill a device."""
    return AT_ONCE * (torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1)


def programs_of_row(device: torch.device, rows: int, width: int) -> int:
    """Return how many programs divide a row of logits, given the numbers of rows and columns, from 1."""
    return max(1, min(_programs(device) // rows, -(-width // (STRIP * STRIPS))))


class Parts(NamedTuple):
    """The division of logits into parts, as a kernel gets it.

    Args:
        number: The number of programs for each row.
        arguments: The logits, their width, the strides of rows and columns, and scratch memory.
        contiguous: Whether columns lie next to each other.
        dtype: The dtype of the logits.
    """

    number: int = 1
    arguments: tuple[Argument, ...] = (None, 0, 0, 0, None)
    contiguous: bool = True
    dtype: torch.dtype | None = None

    @classmethod
    def of(cls, logits: Tensor | None, class_width: int = 0) -> Parts:
        """Divide the rows of logits into as many parts as fill the device.

        Args:
            logits: [B, W], B at least 1; None: nothing is masked.
            class_width: The bytes of scratch memory that each program needs.
        """
        if logits is None:
            return cls()
        (rows, width), strides = logits.shape, logits.stride()
        number = programs_of_row(logits.device, rows, width)
        # A number for each row, which is 0, then a byte for each class and part: one allocation costs the host less than two.
        size = rows + -(-rows * number * class_width // 4)
        scratch = (torch.empty if number == 1 else torch.zeros)(size, dtype=torch.int32, device=logits.device)
        return cls(number, (logits, width, *strides, scratch), strides[1] == 1, logits.dtype)
