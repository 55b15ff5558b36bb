"""Truncations by a share of the best probability as kernels: `MinP` and `TopA`.

By hand: of the probabilities 0.5, 0.3 and 0.2, `MinP(0.5)` keeps those from 0.5 * 0.5 = 0.25 on, and `TopA(0.9)` those from
0.9 * 0.5**2 = 0.225 on. Both keep the first two.

The probabilities are float32, as in the tensor operations, but `exp` and the sum are rounded in another way. So a token whose
probability is the threshold, up to rounding, may be kept by one and removed by the other. The best token always stays.
"""

from __future__ import annotations

from torch import Tensor

from logitkit.kernels.kernel import kernel
from logitkit.kernels.language import tl
from logitkit.kernels.masking import place_of
from logitkit.kernels.row_sums import (
    ONE,
    SUM,
    LogitRows,
    best_kernel,
    best_of,
    chunk_of,
    is_nan,
    loaded,
    scores_of,
    sum_kernel,
)

__all__ = ["share_step"]


@kernel
def share_kernel(
    numbers, room: tl.int64, parameters, logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64,
    SQUARED: tl.constexpr, CONTIGUOUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Set those logits of each row to -inf whose probability is too low, and those that are NaN."""
    row = tl.program_id(0).to(tl.int64)
    own, own_logits = numbers + row * room, logits + row * row_stride
    parameter = tl.load(parameters + row)
    if parameter > 0:
        given, best = best_of(own)
        total = (tl.load(own + SUM).to(tl.float64) / ONE).to(tl.float32)
        # An approximate quotient could be greater than the probability of the best token below, which would then be removed.
        greatest = tl.div_rn(1.0, total)
        threshold = parameter.to(tl.float32) * greatest
        if SQUARED:
            threshold = greatest * greatest * parameter.to(tl.float32)
        lane = tl.arange(0, BLOCK)
        first, last = chunk_of(width, BLOCK)
        for begin in range(first, last, BLOCK):
            x = loaded(own_logits, column_stride, begin, width, CONTIGUOUS, BLOCK)
            # Without a score, both are NaN, and only NaN is removed.
            share = tl.exp(scores_of(x, given) - best)
            chance = tl.div_rn(share, total)
            gone = is_nan(x) | (chance < threshold)
            here = place_of(own_logits, column_stride, begin, lane, CONTIGUOUS)
            tl.store(here, float("-inf"), mask=gone & (begin + lane < width))


def share_step(parameter: Tensor, logits: Tensor, squared: bool) -> bool:
    """Set logits to -inf, in place, whose probability is less than a share of the best one.

    Args:
        parameter: [B] float64, the share; 0 changes nothing.
        logits: [B, V] floating point.
        squared: Whether it is a share of the square of the best probability.

    Returns:
        Whether it was done. If not, no kernel runs here, and nothing has happened.
    """
    rows = LogitRows.of(logits)
    return (
        rows is not None
        and rows.launch(best_kernel)
        and rows.launch(sum_kernel)
        and rows.launch(share_kernel, parameter.contiguous(), constants=(int(squared),))
    )
