"""Kernels that read whole rows of logits for truncations: the best score, and the sum of all probabilities.

By hand, for the logits 2, NaN and 0: the best score is 2. Divided by the probability of the best token, the others are 0 and
exp(-2) = 0.135. In units of 2**-40, the sum is 2**40 + 148,802,666,541.

Invariant: a sum is an integer, so it does not depend on the order in which programs add to it. A row has the same sum in every
batch and every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.kernels import parts
from logitkit.kernels.kernel import Argument, Kernel, kernel
from logitkit.kernels.language import constant, device_function, tl
from logitkit.kernels.masking import place_of

__all__ = [
    "LogitRows",
    "best_kernel",
    "best_of",
    "chunk_of",
    "find_best",
    "first_best_of",
    "is_nan",
    "key_of",
    "loaded",
    "packed",
    "score_of_key",
    "scores_of",
    "share_of",
    "shares_of",
    "store_shares",
    "sum_kernel",
]

# The probability of the best token in the units of a sum, and how many such may be added up.
UNIT, MOST_COLUMNS = 2**40, 2**22
ONE = constant(UNIT)

# Warps in a program. With more of them, threads have fewer columns at once, and so fewer registers.
WARPS = 8

# No row has a column that comes later.
LAST_COLUMN = constant(2**31 - 1)

# The numbers of a row that one launch leaves for the next: the key and the column of the best score, the sum of all
# probabilities, and the sum of their products with the scores, from which the best one was subtracted.
NUMBERS = 3
BEST, SUM, PRODUCTS = map(constant, range(NUMBERS))


@device_function
def key_of(score):
    """Return float32 scores as unsigned integers that sort like them."""
    bits = score.to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) | -2147483648)).to(tl.uint32, bitcast=True)


@device_function
def score_of_key(key):
    """Return the score of a key."""
    bits = key.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ -2147483648, ~bits).to(tl.float32, bitcast=True)


@device_function
def is_nan(x):
    """Return which logits are NaN."""
    # Some devices do not compare numbers of 16 bits.
    wide = x.to(tl.float32)
    return wide != wide


@device_function
def scores_of(x, best):
    """Return logits as scores, float32, as tensor operations do; see `logitkit.sampling.scores`.

    Args:
        x: The logits.
        best: The greatest of the row that is not NaN.
    """
    x = tl.where(is_nan(x), float("-inf"), x.to(tl.float32))
    # Both zeros are the same score, so they need the same key.
    x = tl.where(x == 0.0, 0.0, x)
    return tl.where(best == float("inf"), tl.where(x == float("inf"), 0.0, float("-inf")), x)


@device_function
def packed(score, column):
    """Return scores with their columns as one number each, uint64: greater for a greater score, then for an earlier column."""
    return (key_of(score).to(tl.uint64) << 32) | (-column + LAST_COLUMN).to(tl.uint64)


@device_function
def best_of(numbers):
    """Return the greatest logit of a row that is not NaN, and its score, which differs if it is +inf."""
    best = score_of_key((tl.load(numbers + BEST) >> 32).to(tl.uint32))
    return best, tl.where(best == float("inf"), 0.0, best)


@device_function
def first_best_of(numbers):
    """Return the first column that has the greatest logit of a row."""
    return (-(tl.load(numbers + BEST) & LAST_COLUMN) + LAST_COLUMN).to(tl.int32)


@device_function
def share_of(score, best):
    """Return probabilities divided by the best one, in the units of a sum, int64."""
    return (tl.exp(score - best) * ONE).to(tl.int64)


@device_function
def chunk_of(width, BLOCK: tl.constexpr):
    """Return the first column of a program, and the one after its last."""
    blocks = tl.cdiv(tl.cdiv(width, BLOCK), tl.num_programs(1))
    begin = tl.program_id(1) * blocks * BLOCK
    return begin, tl.minimum(begin + blocks * BLOCK, width)


@device_function
def loaded(logits, column_stride, begin, width, CONTIGUOUS: tl.constexpr, BLOCK: tl.constexpr):
    """Return a block of logits; -inf past the end."""
    lane = tl.arange(0, BLOCK)
    here = place_of(logits, column_stride, begin, lane, CONTIGUOUS)
    return tl.load(here, mask=begin + lane < width, other=float("-inf"))


@device_function
def find_best(numbers, logits, width, column_stride, CONTIGUOUS: tl.constexpr, BLOCK: tl.constexpr):
    """Find the greatest logit of a row that is not NaN, and the first column that has it, in the columns of a program."""
    best = tl.zeros([BLOCK], tl.uint64)
    first, last = chunk_of(width, BLOCK)
    for begin in range(first, last, BLOCK):
        x = loaded(logits, column_stride, begin, width, CONTIGUOUS, BLOCK)
        column = begin + tl.arange(0, BLOCK)
        scores = tl.where(is_nan(x) | (column >= width), float("-inf"), x.to(tl.float32))
        scores = tl.where(scores == 0.0, 0.0, scores)  # both zeros are equal
        best = tl.maximum(best, packed(scores, column))
    # Programs may come in any order, since the maximum is the same. All keys are greater than the 0 that was there.
    there = (numbers + BEST).to(tl.pointer_type(tl.uint64))
    tl.atomic_max(there, tl.max(best, 0), sem="relaxed")


@kernel
def best_kernel(
    numbers, room: tl.int64, logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64,
    CONTIGUOUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Find the greatest logit of each row that is not NaN, and the first column that has it."""
    row = tl.program_id(0).to(tl.int64)
    find_best(numbers + row * room, logits + row * row_stride, width, column_stride, CONTIGUOUS, BLOCK)


@device_function
def shares_of(x, given, best):
    """Return the probabilities of a block of logits, and their products with the scores, in the units of sums."""
    behind = scores_of(x, given) - best
    share = tl.exp(behind)
    return (share * ONE).to(tl.int64), (share * tl.where(share > 0.0, behind, 0.0) * ONE).to(tl.int64)


@device_function
def store_shares(numbers, total, products):
    """Add sums of a program to those of its row."""
    tl.atomic_add(numbers + SUM, total, sem="relaxed")
    tl.atomic_add(numbers + PRODUCTS, products, sem="relaxed")


@kernel
def sum_kernel(
    numbers, room: tl.int64, logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64,
    CONTIGUOUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add up the probabilities of each row, and their products with the scores."""
    row = tl.program_id(0).to(tl.int64)
    own = numbers + row * room
    given, best = best_of(own)
    if given > float("-inf"):
        total, products = tl.zeros([BLOCK], tl.int64), tl.zeros([BLOCK], tl.int64)
        first, last = chunk_of(width, BLOCK)
        for begin in range(first, last, BLOCK):
            x = loaded(logits + row * row_stride, column_stride, begin, width, CONTIGUOUS, BLOCK)
            share, product = shares_of(x, given, best)
            total += share
            products += product
        store_shares(own, tl.sum(total, 0), tl.sum(products, 0))


class LogitRows(NamedTuple):
    """Rows of logits that several launches read, and the memory in which each launch finds what earlier ones left.

    Args:
        logits: [B, V] floating point of up to 32 bits.
        memory: [B, M] int64: for each row, `NUMBERS` numbers, and what other kernels leave. Lists of tokens need none.
        programs: The number of programs for each row.
    """

    logits: Tensor
    memory: Tensor
    programs: int

    @classmethod
    def of(cls, logits: Tensor, sizes: Callable[[int], Sequence[int]]) -> tuple[LogitRows, ...]:
        """Return rows with memory for each of some processors; none if no kernel can truncate the logits.

        Args:
            logits: [B, V] floating point.
            sizes: Returns how many numbers a row needs for each processor, given its programs.
        """
        is_wide = logits.dtype.itemsize > torch.float32.itemsize or logits.shape[1] > MOST_COLUMNS
        if is_wide or not logits.numel():
            return ()
        (rows, width), device = logits.shape, logits.device
        programs = parts.programs_of_row(device, rows, width)
        each = list(sizes(programs))
        memory = torch.zeros((rows, sum(each)), dtype=torch.int64, device=device)
        return tuple([cls(logits, own, programs) for own in torch.split(memory, each, 1)])

    def launch(self, one: Kernel, *others: Argument, constants: tuple[float, ...] = ()) -> bool:
        """Start a kernel with the memory, its size for a row, other arguments, and the logits; return whether it was started.

        Args:
            one: The kernel.
            others: Its other arguments.
            constants: Its constants, besides those of the logits.
        """
        (rows, width), strides = self.logits.shape, self.logits.stride()
        return one.launch(
            self.logits.device,
            (rows, self.programs),
            None,
            (self.memory, self.memory.stride(0), *others, self.logits, width, *strides),
            (*constants, int(strides[1] == 1), parts.STRIP * parts.STRIPS),
            (self.logits.dtype,),
            WARPS,
        )
