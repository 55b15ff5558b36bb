"""Truncations as kernels, which find where a row is cut, digit by digit, instead of sorting it.

A truncation removes the worst scores of a row, up to a *cut*. To sort 131,072 scores moves them some twenty times, but only the
cut is needed. The *key* of a score is an unsigned integer that sorts like the score. One launch counts the first digits of all
keys. That gives the first digit of the cut, so the next launch counts the second digits of those keys that begin with it, and so
on. A key has three digits, of 11, 11 and 10 bits. `TopK` counts keys; `TopP` and `TypicalP` add up the probabilities of their
tokens.

By hand, with decimal digits: of the keys 12, 45, 47 and 81, `TopK(2)` may remove two. The first digits 1, 4 and 8 occur once,
twice and once. One key begins with 1 or less, and three begin with 4 or less, which are too many. So the cut begins with 4, and
one key is below. The second digits 5 and 7 occur once each. Two keys are 45 or less, and three are 47 or less. So the cut is 47,
and 47 and 81 stay.

`TypicalP` keeps the lowest keys instead of removing them: its key is how far the information of a token is from the entropy. See
`truncation_rules`.

Invariants:

- Only integers are counted and added up; see `row_sums`. So a row is cut in the same place in every batch and every run.
- A launch reads only what earlier launches left, and the logits, of which each program of the last launch writes its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from logitkit.kernels.digits import (
    AFTER_SECOND,
    COUNTS,
    COUNTS_SIZE,
    DIGITS,
    KNOWN,
    LAST_DIGIT,
    NEGATIVE,
    SUMS_AT,
    VALUES,
    add_absent,
    add_digits,
    with_digit,
)
from logitkit.kernels.first_pass import First, Follower, add_first, follows, leave_best, store_first
from logitkit.kernels.kernel import kernel
from logitkit.kernels.language import device_function, tl
from logitkit.kernels.masking import place_of
from logitkit.kernels.row_sums import (
    BEST,
    NUMBERS,
    LogitRows,
    best_of,
    chunk_of,
    is_nan,
    loaded,
    score_of_key,
    share_of,
    sum_kernel,
)
from logitkit.kernels.stages import Stage
from logitkit.kernels.truncation_rules import (
    ALL,
    TOP_K,
    TOP_P,
    TYPICAL_P,
    Rule,
    information_of,
    is_active,
    keys_of,
    limits_of,
)

__all__ = ["Rule", "TruncationStage"]


@kernel
def digit_kernel(
    numbers, room: tl.int64, counts_at: tl.int32, parameters, leasts,
    logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64,
    DIGIT: tl.constexpr, RULE: tl.constexpr, CONTIGUOUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Count the keys of each row that begin as the cut does by their next digit, and add up the probabilities of their tokens."""
    row = tl.program_id(0).to(tl.int64)
    own = numbers + row * room
    sums, counts = own + SUMS_AT, (own + counts_at).to(tl.pointer_type(tl.int32))
    parameter, active = is_active(parameters, row, width, RULE)
    given, best = best_of(own)
    if active & (given > float("-inf")):
        least = tl.load(leasts + row)
        begun = tl.zeros([], tl.int64)
        if DIGIT > 0:
            begun, _, _, _ = with_digit(own, sums, counts, parameter, least, width, DIGIT - 1, RULE)
        logarithm, entropy = information_of(own, RULE)
        absent = tl.zeros([BLOCK], tl.int32)
        first, last = chunk_of(width, BLOCK)
        for begin in range(first, last, BLOCK):
            x = loaded(logits + row * row_stride, column_stride, begin, width, CONTIGUOUS, BLOCK)
            keys, scores = keys_of(x, given, best, logarithm, entropy, RULE)
            inside = begin + tl.arange(0, BLOCK) < width
            absent += add_digits(sums, counts, keys, scores, best, begun, inside, least, DIGIT, RULE)
        add_absent(counts, tl.sum(absent, 0), given, best, logarithm, entropy, begun, least, DIGIT, RULE)


@device_function
def tied_below(cut, best, below, sum_below, greatest_sum, greatest_count, RULE: tl.constexpr):
    """Return how many of the keys that equal the cut belong to those below it: the ones with the lowest ids."""
    if RULE == TOP_K:
        return tl.zeros([], tl.int64)
    elif RULE == TOP_P:  # noqa: RET505 - the compiler must not see the other branches
        share = share_of(score_of_key(cut), best)
        some = tl.where(share > 0, (greatest_sum - sum_below) // tl.maximum(share, 1), ALL)
        return tl.minimum(some, greatest_count - below)
    else:
        return tl.where(sum_below > greatest_sum, greatest_count + 1 - below, ALL)


@device_function
def cut_of(numbers, counts_at, parameter, least, best, width, PASSES: tl.constexpr, RULE: tl.constexpr):
    """Return the cut, and how many of the keys that equal it belong to those below; see `tied_below`."""
    sums, counts = numbers + SUMS_AT, (numbers + counts_at).to(tl.pointer_type(tl.int32))
    begun, below, sum_below, total = with_digit(numbers, sums, counts, parameter, least, width, PASSES - 1, RULE)
    cut = begun.to(tl.uint32)
    if PASSES == 2:
        # The bits that are left are 0 in a positive score, and so 1 in the key of a negative one.
        cut = ((begun << AFTER_SECOND) | tl.where(begun < NEGATIVE, LAST_DIGIT, 0)).to(tl.uint32)
    greatest_sum, greatest_count = limits_of(parameter, least, total, width, RULE)
    return cut, tied_below(cut, best, below, sum_below, greatest_sum, greatest_count, RULE)


@kernel
def tie_kernel(
    numbers, room: tl.int64, counts_at: tl.int32, parameters, leasts,
    logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64,
    PASSES: tl.constexpr, RULE: tl.constexpr, CONTIGUOUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Count how many keys of each program equal the cut, where some of all of them are kept and some are not."""
    row = tl.program_id(0).to(tl.int64)
    own = numbers + row * room
    parameter, active = is_active(parameters, row, width, RULE)
    given, best = best_of(own)
    if active & (given > float("-inf")):
        cut, tied = cut_of(own, counts_at, parameter, tl.load(leasts + row), best, width, PASSES, RULE)
        if (tied > 0) & (tied < ALL):
            equal = tl.zeros([], tl.int64)
            logarithm, entropy = information_of(own, RULE)
            first, last = chunk_of(width, BLOCK)
            for begin in range(first, last, BLOCK):
                x = loaded(logits + row * row_stride, column_stride, begin, width, CONTIGUOUS, BLOCK)
                keys, _ = keys_of(x, given, best, logarithm, entropy, RULE)
                inside = begin + tl.arange(0, BLOCK) < width
                equal += tl.sum(((keys == cut) & inside).to(tl.int64), 0)
            tl.store(own + counts_at + COUNTS_SIZE + tl.program_id(1), equal)


@kernel
def cut_kernel(
    numbers, room: tl.int64, counts_at: tl.int32, parameters, leasts,
    next_numbers, next_counts_at: tl.int32, next_parameters, next_leasts,
    logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64,
    PASSES: tl.constexpr, RULE: tl.constexpr, FIRST: tl.constexpr, CONTIGUOUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Set those logits of each row to -inf that its truncation removes, and those that are NaN. Do a first pass over the rest."""
    row = tl.program_id(0).to(tl.int64)
    own, own_logits, after = numbers + row * room, logits + row * row_stride, next_numbers
    parameter, active = is_active(parameters, row, width, RULE)
    given, best = best_of(own)
    if FIRST > 0:
        after = next_numbers + row * room
        leave_best(after, tl.load(own + BEST), FIRST)
    follow, next_least = follows(next_parameters, next_leasts, row, width, given, FIRST)
    if active | follow:
        # Without a score, only NaN is removed.
        some = active & (given > float("-inf"))
        cut, tied, rank = tl.zeros([], tl.uint32), tl.zeros([], tl.int64), tl.zeros([], tl.int64)
        if some:
            cut, tied = cut_of(own, counts_at, parameter, tl.load(leasts + row), best, width, PASSES, RULE)
            if (tied > 0) & (tied < ALL):
                # How many keys before those of this program equal the cut. Other programs are changing their logits now.
                for program in range(tl.program_id(1)):
                    rank += tl.load(own + counts_at + COUNTS_SIZE + program)
        logarithm, entropy = information_of(own, RULE)
        lane = tl.arange(0, BLOCK)
        one, other = tl.zeros([], tl.int64), tl.zeros([], tl.int64)
        first, last = chunk_of(width, BLOCK)
        for begin in range(first, last, BLOCK):
            x = loaded(own_logits, column_stride, begin, width, CONTIGUOUS, BLOCK)
            inside = begin + lane < width
            gone = tl.where(active, is_nan(x), False)
            if some:
                keys, _ = keys_of(x, given, best, logarithm, entropy, RULE)
                equal = (keys == cut).to(tl.int64)
                lower = (keys < cut) | ((keys == cut) & (rank + tl.cumsum(equal, 0) <= tied))
                rank += tl.sum(equal, 0)
                gone = gone | (lower if RULE != TYPICAL_P else ~lower)
            here = place_of(own_logits, column_stride, begin, lane, CONTIGUOUS)
            tl.store(here, float("-inf"), mask=gone & inside)
            if follow:
                left = tl.where(gone, float("-inf"), x.to(tl.float32))
                one, other = add_first(after, next_counts_at, next_least, left, given, best, inside, one, other, FIRST)
        if follow:
            store_first(after, next_counts_at, next_least, given, best, one, other, FIRST)


@dataclass(slots=True)
class TruncationStage(Stage):
    """Truncate rows of logits.

    Args:
        rule: The truncation.
        parameter: [B] int64, the number of tokens to keep; of other rules [B] float64, the probability.
        least: [B] int64, the minimum number of tokens to keep, which `TOP_K` does not use.
    """

    rule: Rule
    parameter: Tensor
    least: Tensor

    @property
    def leaves_best(self) -> bool:  # type: ignore[override]
        """Whether the best score stays; it may be too likely to be typical."""
        return self.rule is not Rule.TYPICAL_P

    @property
    def leaves_column(self) -> bool:  # type: ignore[override]
        """Whether all tokens with the best score stay; `TopP` may remove the first ones of them."""
        return self.rule is Rule.TOP_K

    @property
    def counts_at(self) -> int:
        """Where in the memory of a row its numbers of keys begin."""
        return NUMBERS + 2 * KNOWN + (0 if self.rule is Rule.TOP_K else DIGITS * VALUES)

    def size(self, programs: int) -> int:
        """Return how many numbers it needs in memory for a row that some programs share."""
        return self.counts_at + COUNTS + programs

    def follower(self, rows: LogitRows) -> Follower:
        """Return the count of first digits as its first pass; for `TypicalP`, the sum of all probabilities."""
        if self.rule is Rule.TYPICAL_P:
            return Follower(First.SUM, rows.memory)
        first = First.TOP_K if self.rule is Rule.TOP_K else First.TOP_P
        return Follower(first, rows.memory, self.counts_at, self.parameter.contiguous(), self.least.contiguous())

    def launch(self, rows: LogitRows, begun: bool, following: Follower) -> bool:
        """Start its launches."""
        rule, sums = int(self.rule), self.rule is Rule.TYPICAL_P
        # The keys of 16-bit logits end within the second digit. Those of `TypicalP` do not.
        passes = 2 if rows.logits.dtype.itemsize < torch.float32.itemsize and not sums else DIGITS
        others = self.counts_at, self.parameter.contiguous(), self.least.contiguous()
        digits = range(int(begun and not sums), passes)
        return (
            (begun or not sums or rows.launch(sum_kernel))
            and all(rows.launch(digit_kernel, *others, constants=(digit, rule)) for digit in digits)
            and (self.rule is Rule.TOP_K or rows.launch(tie_kernel, *others, constants=(passes, rule)))
            and rows.launch(cut_kernel, *others, *following.arguments, constants=(passes, rule, int(following.first)))
        )
