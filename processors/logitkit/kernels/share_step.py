"""Truncations by a share of the best probability as kernels: `MinP` and `TopA`.

By hand: of the probabilities 0.5, 0.3 and 0.2, `MinP(0.5)` keeps those from 0.5 * 0.5 = 0.25 on, and `TopA(0.9)` those from
0.9 * 0.5**2 = 0.225 on. Both keep the first two.

The probabilities are float32, as in the tensor operations, but `exp` and the sum are rounded in another way. So a token whose
probability is the threshold, up to rounding, may be kept by one and removed by the other. The best token always stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from logitkit.kernels.first_pass import First, Follower, add_first, follows, leave_best, store_first
from logitkit.kernels.kernel import kernel
from logitkit.kernels.language import tl
from logitkit.kernels.masking import place_of
from logitkit.kernels.row_sums import (
    BEST,
    ONE,
    SUM,
    LogitRows,
    best_of,
    chunk_of,
    is_nan,
    loaded,
    scores_of,
    sum_kernel,
)
from logitkit.kernels.stages import Stage

__all__ = ["ShareStage"]


@kernel
def share_kernel(
    numbers, room: tl.int64, parameters, next_numbers, next_counts_at: tl.int32, next_parameters, next_leasts,
    logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64,
    FIRST: tl.constexpr, SQUARED: tl.constexpr, CONTIGUOUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Set logits of each row to -inf whose probability is too low, and those that are NaN. Do a first pass over the rest."""
    row = tl.program_id(0).to(tl.int64)
    own, own_logits, after = numbers + row * room, logits + row * row_stride, next_numbers
    parameter = tl.load(parameters + row)
    given, best = best_of(own)
    if FIRST > 0:
        after = next_numbers + row * room
        leave_best(after, tl.load(own + BEST), FIRST)
    follow, least = follows(next_parameters, next_leasts, row, width, given, FIRST)
    if (parameter > 0) | follow:
        total = (tl.load(own + SUM).to(tl.float64) / ONE).to(tl.float32)
        # An approximate quotient could be greater than the probability of the best token below, which would then be removed.
        greatest = tl.div_rn(1.0, total)
        threshold = parameter.to(tl.float32) * greatest
        if SQUARED:
            threshold = greatest * greatest * parameter.to(tl.float32)
        lane = tl.arange(0, BLOCK)
        one, other = tl.zeros([], tl.int64), tl.zeros([], tl.int64)
        first, last = chunk_of(width, BLOCK)
        for begin in range(first, last, BLOCK):
            x = loaded(own_logits, column_stride, begin, width, CONTIGUOUS, BLOCK)
            inside = begin + lane < width
            # Without a score, both are NaN, and only NaN is removed.
            share = tl.exp(scores_of(x, given) - best)
            chance = tl.div_rn(share, total)
            gone = tl.where(parameter > 0, is_nan(x) | (chance < threshold), False)
            here = place_of(own_logits, column_stride, begin, lane, CONTIGUOUS)
            tl.store(here, float("-inf"), mask=gone & inside)
            if follow:
                left = tl.where(gone, float("-inf"), x.to(tl.float32))
                one, other = add_first(after, next_counts_at, least, left, given, best, inside, one, other, FIRST)
        if follow:
            store_first(after, next_counts_at, least, given, best, one, other, FIRST)


@dataclass(slots=True)
class ShareStage(Stage):
    """Set logits to -inf whose probability is less than a share of the best one.

    Args:
        parameter: [B] float64, the share; 0 changes nothing.
        squared: Whether it is a share of the square of the best probability.
    """

    parameter: Tensor
    squared: bool

    def follower(self, rows: LogitRows) -> Follower:
        """Return the sum of all probabilities as its first pass."""
        return Follower(First.SUM, rows.memory)

    def launch(self, rows: LogitRows, begun: bool, following: Follower) -> bool:
        """Start its launches."""
        constants = int(following.first), int(self.squared)
        return (begun or rows.launch(sum_kernel)) and rows.launch(
            share_kernel, self.parameter.contiguous(), *following.arguments, constants=constants
        )
