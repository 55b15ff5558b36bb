"""`Temperature` as a kernel.

By hand: with temperature 0.5, the float16 logits 1 and 40,000 would become 2 and 80,000, but the greatest number is 65,504. So
the best logit is subtracted first. They become -65,504, since a finite logit stays finite, and 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from logitkit.kernels.first_pass import Follower, add_first, follows, leave_best, store_first
from logitkit.kernels.kernel import kernel
from logitkit.kernels.language import device_function, tl
from logitkit.kernels.listed_step import finite
from logitkit.kernels.masking import place_of
from logitkit.kernels.row_sums import LogitRows, best_of, chunk_of, first_best_of, is_nan, loaded, packed
from logitkit.kernels.stages import Stage

__all__ = ["TemperatureStage"]


@device_function
def divided(wide, divisor, overflows, shift, dtype: tl.constexpr, MOST_FINITE: tl.constexpr):
    """Return logits without NaN, divided by a temperature above 0; they are shifted first if they would overflow."""
    quotient = tl.div_rn(tl.where(overflows, wide - shift, wide), tl.zeros_like(wide) + divisor)
    return finite(wide, quotient, dtype, MOST_FINITE)


@kernel
def temperature_kernel(
    numbers, room: tl.int64, temperatures, next_numbers, next_counts_at: tl.int32, next_parameters, next_leasts,
    logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64,
    FIRST: tl.constexpr, MOST_FINITE: tl.constexpr, CONTIGUOUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Divide each row by its temperature; with 0, keep only the first of the best logits. Do a first pass over the result."""
    row = tl.program_id(0).to(tl.int64)
    own, own_logits, after = numbers + row * room, logits + row * row_stride, next_numbers
    dtype: tl.constexpr = logits.dtype.element_ty
    temperature = tl.load(temperatures + row).to(tl.float32)
    best, _ = best_of(own)
    divisor = tl.where(temperature > 0.0, temperature, 1.0)
    # The best logit would overflow, so the row is shifted.
    overflows = (tl.abs(best) < float("inf")) & (tl.abs(tl.div_rn(best, divisor)) > MOST_FINITE)
    shift = tl.where(overflows, best, 0.0)
    column, lane = first_best_of(own), tl.arange(0, BLOCK)
    changes = temperature != 1.0
    given, score = best, best
    if FIRST > 0:
        # A greater logit does not become the lesser one: the difference, the quotient and the rounding keep the order.
        after = next_numbers + row * room
        given = divided(best, divisor, overflows, shift, dtype, MOST_FINITE).to(tl.float32)
        given = tl.where(changes & (temperature > 0.0), given, best)
        given = tl.where(given == 0.0, 0.0, given)
        score = tl.where(given == float("inf"), 0.0, given)
        leave_best(after, packed(given, column), FIRST)
    follow, least = follows(next_parameters, next_leasts, row, width, given, FIRST)
    if changes | follow:
        one, other = tl.zeros([], tl.int64), tl.zeros([], tl.int64)
        first, last = chunk_of(width, BLOCK)
        for begin in range(first, last, BLOCK):
            x = loaded(own_logits, column_stride, begin, width, CONTIGUOUS, BLOCK)
            inside = begin + lane < width
            if changes:
                wide = tl.where(is_nan(x), float("-inf"), x.to(tl.float32))
                if temperature > 0.0:
                    x = divided(wide, divisor, overflows, shift, dtype, MOST_FINITE)
                else:
                    x = tl.where(begin + lane == column, wide, float("-inf")).to(dtype)
                tl.store(place_of(own_logits, column_stride, begin, lane, CONTIGUOUS), x, mask=inside)
            if follow:
                one, other = add_first(after, next_counts_at, least, x, given, score, inside, one, other, FIRST)
        if follow:
            store_first(after, next_counts_at, least, given, score, one, other, FIRST)


@dataclass(slots=True)
class TemperatureStage(Stage):
    """Divide rows of logits by their temperatures.

    Args:
        temperature: [B] float64; 0 keeps the best token only, 1 changes nothing.
    """

    temperature: Tensor

    # Two logits may become equal.
    leaves_column: ClassVar[bool] = False
    needs_column: ClassVar[bool] = True

    def launch(self, rows: LogitRows, begun: bool, following: Follower) -> bool:
        """Start its launch."""
        constants = int(following.first), torch.finfo(rows.logits.dtype).max
        return rows.launch(temperature_kernel, self.temperature.contiguous(), *following.arguments, constants=constants)
