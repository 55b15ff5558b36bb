"""`Temperature` as kernels.

By hand: with temperature 0.5, the float16 logits 1 and 40,000 would become 2 and 80,000, but the greatest number is 65,504. So
the best logit is subtracted first. They become -65,504, since a finite logit stays finite, and 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.kernels.kernel import kernel
from logitkit.kernels.language import tl
from logitkit.kernels.listed_step import finite
from logitkit.kernels.masking import place_of
from logitkit.kernels.row_sums import LogitRows, best_kernel, best_of, chunk_of, first_best_of, is_nan, loaded

__all__ = ["temperature_step"]


@kernel
def temperature_kernel(
    numbers, room: tl.int64, temperatures, logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64,
    MOST_FINITE: tl.constexpr, CONTIGUOUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Divide each row by its temperature; with 0, keep only the first of the best logits."""
    row = tl.program_id(0).to(tl.int64)
    own, own_logits = numbers + row * room, logits + row * row_stride
    temperature = tl.load(temperatures + row).to(tl.float32)
    if temperature != 1.0:
        best, _ = best_of(own)
        divisor = tl.where(temperature > 0.0, temperature, 1.0)
        # The best logit would overflow, so the row is shifted.
        overflows = (tl.abs(best) < float("inf")) & (tl.abs(tl.div_rn(best, divisor)) > MOST_FINITE)
        shift = tl.where(overflows, best, 0.0)
        column, lane = first_best_of(own), tl.arange(0, BLOCK)
        first, last = chunk_of(width, BLOCK)
        for begin in range(first, last, BLOCK):
            x = loaded(own_logits, column_stride, begin, width, CONTIGUOUS, BLOCK)
            wide = tl.where(is_nan(x), float("-inf"), x.to(tl.float32))
            if temperature > 0.0:
                divided = tl.div_rn(tl.where(overflows, wide - shift, wide), tl.zeros_like(wide) + divisor)
                changed = finite(wide, divided, logits.dtype.element_ty, MOST_FINITE)
            else:
                changed = tl.where(begin + lane == column, wide, float("-inf")).to(logits.dtype.element_ty)
            here = place_of(own_logits, column_stride, begin, lane, CONTIGUOUS)
            tl.store(here, changed, mask=begin + lane < width)


def temperature_step(temperature: Tensor, logits: Tensor) -> bool:
    """Divide rows of logits by their temperatures, in place.

    Args:
        temperature: [B] float64; 0 keeps the best token only, 1 changes nothing.
        logits: [B, V] floating point.

    Returns:
        Whether it was done. If not, no kernel runs here, and nothing has happened.
    """
    rows = LogitRows.of(logits)
    return (
        rows is not None
        and rows.launch(best_kernel)
        and rows.launch(temperature_kernel, temperature.contiguous(), constants=(torch.finfo(logits.dtype).max,))
    )
