"""Functions of kernels: the first pass of a processor over a row, while the last pass of the one before has the row at hand.

The last launch of `Temperature` and of a truncation reads each logit, and writes some. The next processor would read all of them
again: `TopK` to count first digits, `TopP` to add up probabilities by first digits, and `MinP` to add up all. Instead, the launch
goes on with the block that it has just changed.

By hand: `TopK(2)` leaves the logits 5, 4, -inf and -inf to `MinP(0.5)`. In the launch that writes both -inf, `TopK` adds up
1 + exp(-1) for `MinP`, and leaves it the best score, 5.

Invariants:

- A block is changed to the dtype of the logits first, so the sums and counts are those of the numbers in memory.
- The best score is known before the pass: a truncation keeps it, and a temperature changes it like any other.
- Each processor has memory of its own, in which no program of the launch reads what another one writes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from torch import Tensor

from logitkit.kernels.digits import SUMS_AT, add_absent, add_digits
from logitkit.kernels.kernel import Argument
from logitkit.kernels.language import constant, device_function, tl
from logitkit.kernels.row_sums import BEST, shares_of, store_shares
from logitkit.kernels.truncation_rules import is_active, keys_of

__all__ = ["NOTHING_FOLLOWS", "First", "Follower", "add_first", "follows", "leave_best", "store_first"]


class First(IntEnum):
    """The first pass of a processor: what it needs of a row besides the best score. The last two are rules of truncations."""

    NOTHING = 0
    BEST = 1
    SUM = 2
    TOP_K = 3
    TOP_P = 4


NOTHING, _, SUMMED, COUNTED, _ = map(constant, First)


class Follower(NamedTuple):
    """A processor whose first pass a launch also does.

    Args:
        first: The pass.
        memory: [B, M] int64, its memory for each row, with the strides of that of the launch.
        counts_at: Where the numbers of keys by digit begin; see `digits`.
        parameter: [B], its parameter, if it is a truncation that counts digits.
        least: [B] int64, its minimum number of tokens to keep.
    """

    first: First
    memory: Tensor | None = None
    counts_at: int = 0
    parameter: Tensor | None = None
    least: Tensor | None = None

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments of a kernel that does the pass; `first` is its constant."""
        return self[1:]


NOTHING_FOLLOWS = Follower(First.NOTHING)


@device_function
def leave_best(numbers, key, FIRST: tl.constexpr):
    """Leave the best score of a row, as `packed` returns it, in the memory of the next processor."""
    if FIRST != NOTHING:
        # All programs of the row have the same, and later launches read it.
        if tl.program_id(1) == 0:
            tl.store(numbers + BEST, key.to(tl.int64))


@device_function
def follows(parameters, leasts, row, width, given, FIRST: tl.constexpr):
    """Return whether the next processor has a pass over a row, and its minimum number of tokens to keep."""
    if FIRST < SUMMED:
        return tl.zeros([], tl.int32) > 0, 1
    elif FIRST == SUMMED:  # noqa: RET505 - the compiler must not see the other branches
        return given > float("-inf"), 1
    else:
        _, active = is_active(parameters, row, width, FIRST - COUNTED)
        return active & (given > float("-inf")), tl.load(leasts + row)


@device_function
def add_first(numbers, counts_at, least, x, given, best, inside, one, other, FIRST: tl.constexpr):
    """Do the pass over a block of logits.

    Args:
        numbers: Pointer to the memory of the row.
        counts_at: Where its numbers of keys begin.
        least: The minimum number of tokens to keep.
        x: The block.
        given, best: The greatest logit, and its score.
        inside: Which places of the block are columns.
        one, other: int64, what the program has added up; see `store_first`.

    Returns:
        `one` and `other` afterwards.
    """
    if FIRST == SUMMED:
        share, product = shares_of(x, given, best)
        one += tl.sum(share, 0)
        other += tl.sum(product, 0)
    elif FIRST >= COUNTED:
        RULE: tl.constexpr = FIRST - COUNTED
        keys, scores = keys_of(x, given, best, 0.0, 0.0, RULE)
        counts = (numbers + counts_at).to(tl.pointer_type(tl.int32))
        absent = add_digits(numbers + SUMS_AT, counts, keys, scores, best, 0, inside, least, 0, RULE)
        one += tl.sum(absent, 0)
    return one, other


@device_function
def store_first(numbers, counts_at, least, given, best, one, other, FIRST: tl.constexpr):
    """Add what a program has added up to the memory of its row."""
    if FIRST == SUMMED:
        store_shares(numbers, one, other)
    elif FIRST >= COUNTED:
        counts = (numbers + counts_at).to(tl.pointer_type(tl.int32))
        add_absent(counts, one.to(tl.int32), given, best, 0.0, 0.0, 0, least, 0, FIRST - COUNTED)
