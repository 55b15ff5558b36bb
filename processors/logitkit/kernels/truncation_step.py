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

import torch
from torch import Tensor

from logitkit.kernels.kernel import kernel
from logitkit.kernels.language import constant, device_function, tl
from logitkit.kernels.masking import place_of
from logitkit.kernels.row_sums import (
    NUMBERS,
    SUM,
    LogitRows,
    best_kernel,
    best_of,
    chunk_of,
    is_nan,
    loaded,
    score_of_key,
    share_of,
    sum_kernel,
)
from logitkit.kernels.truncation_rules import (
    ALL,
    TOP_K,
    TOP_P,
    TYPICAL_P,
    Rule,
    information_of,
    is_active,
    is_beyond,
    keys_of,
    limits_of,
)

__all__ = ["Rule", "truncation_step"]


# The digits of a key: their number, how many values each has room for, and the bits after the first and after the second.
DIGITS, VALUES = 3, 2**11
BINS, AFTER_FIRST, AFTER_SECOND, LAST_DIGIT = map(constant, (VALUES, 21, 10, 2**10 - 1))
# The first two digits of the keys of negative scores are less.
NEGATIVE = constant(2**21)

# In the memory of a row: what is known of the cut after the first digit and after the second, which is the beginning of its key,
# the number of keys below, and the sum of their probabilities. Then the sums by digit; the numbers of keys by digit, of which two
# take the place of one number; and by program, how many keys equal the cut.
KNOWN = 3
COUNTS = DIGITS * VALUES // 2
KNOWN_AT, KNOWN_SIZE, SUMS_AT, COUNTS_SIZE = map(constant, (NUMBERS, KNOWN, NUMBERS + 2 * KNOWN, COUNTS))


@device_function
def digit_of(keys, begun, DIGIT: tl.constexpr):
    """Return a digit of keys, and which of them begin as the cut does."""
    if DIGIT == 0:
        return (keys >> AFTER_FIRST).to(tl.int32), keys >= 0
    elif DIGIT == 1:  # noqa: RET505 - the compiler must not see the other branches
        return ((keys >> AFTER_SECOND) & (BINS - 1)).to(tl.int32), (keys >> AFTER_FIRST) == begun.to(tl.uint32)
    else:
        return (keys & LAST_DIGIT).to(tl.int32), (keys >> AFTER_SECOND) == begun.to(tl.uint32)


@device_function
def with_digit(numbers, sums, counts, parameter, least, width, DIGIT: tl.constexpr, RULE: tl.constexpr):
    """Return the beginning of the cut with its digit number `DIGIT`, the number and the sum of lower keys, and the sum of all.

    Args:
        numbers: Pointer to the memory of the row.
        sums: Pointer to the sums by digit.
        counts: Pointer to the numbers of keys by digit.
    """
    lane = tl.arange(0, BINS)
    found = tl.load(counts + DIGIT * BINS + lane).to(tl.int64)
    added = tl.zeros([BINS], tl.int64)
    if RULE != TOP_K:
        added = tl.load(sums + DIGIT * BINS + lane)
    if DIGIT == 0:
        begun, below, sum_below = tl.zeros([], tl.int64), tl.zeros([], tl.int64), tl.zeros([], tl.int64)
        total = tl.sum(added, 0)
    else:
        before = numbers + KNOWN_AT + (DIGIT - 1) * KNOWN_SIZE
        begun, below, sum_below = tl.load(before), tl.load(before + 1), tl.load(before + 2)
        total = tl.load(numbers + SUM)
    greatest_sum, greatest_count = limits_of(parameter, least, total, width, RULE)
    beyond = is_beyond(sum_below + tl.cumsum(added, 0), below + tl.cumsum(found, 0), greatest_sum, greatest_count, RULE)
    digit = tl.min(tl.where(beyond, lane, BINS - 1), 0)
    below += tl.sum(tl.where(lane < digit, found, 0), 0)
    sum_below += tl.sum(tl.where(lane < digit, added, 0), 0)
    if DIGIT == 2:
        begun = (begun << AFTER_SECOND) | digit
    else:
        begun = (begun << (AFTER_FIRST - AFTER_SECOND)) | digit
        # Each program finds the same, and one leaves it for later launches.
        if tl.program_id(1) == 0:
            after = numbers + KNOWN_AT + DIGIT * KNOWN_SIZE
            tl.store(after, begun)
            tl.store(after + 1, below)
            tl.store(after + 2, sum_below)
            if DIGIT == 0:
                if RULE == TOP_P:
                    tl.store(numbers + SUM, total)
    return begun, below, sum_below, total


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
            digit, inside = digit_of(keys, begun, DIGIT)
            inside = inside & (begin + tl.arange(0, BLOCK) < width)
            place, some = DIGIT * BINS + digit, inside & (scores > float("-inf"))
            absent += (inside & ~some).to(tl.int32)
            # Programs may come in any order, since sums of integers are the same.
            if RULE != TOP_K:
                share = share_of(scores, best)
                tl.atomic_add(sums + place, share, mask=some & (share > 0), sem="relaxed")
            # Usually one token has to stay, which needs no counting.
            if RULE == TOP_K or least > 1:
                tl.atomic_add(counts + place, 1, mask=some, sem="relaxed")
        if RULE == TOP_K or least > 1:
            # After a constraint, most scores are -inf and have the same key, so they are added up here first.
            never = tl.zeros([], tl.float32) + float("-inf")
            common, never = keys_of(never, given, best, logarithm, entropy, RULE)
            common_digit, _begins = digit_of(common, begun, DIGIT)
            # 0 unless the common key begins as the cut does.
            tl.atomic_add(counts + DIGIT * BINS + common_digit, tl.sum(absent, 0), sem="relaxed")


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
    logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64,
    PASSES: tl.constexpr, RULE: tl.constexpr, CONTIGUOUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Set those logits of each row to -inf that its truncation removes, and those that are NaN."""
    row = tl.program_id(0).to(tl.int64)
    own, own_logits = numbers + row * room, logits + row * row_stride
    parameter, active = is_active(parameters, row, width, RULE)
    if active:
        given, best = best_of(own)
        # Without a score, only NaN is removed.
        some = given > float("-inf")
        cut, tied, rank = tl.zeros([], tl.uint32), tl.zeros([], tl.int64), tl.zeros([], tl.int64)
        if some:
            cut, tied = cut_of(own, counts_at, parameter, tl.load(leasts + row), best, width, PASSES, RULE)
            if (tied > 0) & (tied < ALL):
                # How many keys before those of this program equal the cut. Other programs are changing their logits now.
                for program in range(tl.program_id(1)):
                    rank += tl.load(own + counts_at + COUNTS_SIZE + program)
        logarithm, entropy = information_of(own, RULE)
        lane = tl.arange(0, BLOCK)
        first, last = chunk_of(width, BLOCK)
        for begin in range(first, last, BLOCK):
            x = loaded(own_logits, column_stride, begin, width, CONTIGUOUS, BLOCK)
            gone = is_nan(x)
            if some:
                keys, _ = keys_of(x, given, best, logarithm, entropy, RULE)
                equal = (keys == cut).to(tl.int64)
                lower = (keys < cut) | ((keys == cut) & (rank + tl.cumsum(equal, 0) <= tied))
                rank += tl.sum(equal, 0)
                gone = gone | (lower if RULE != TYPICAL_P else ~lower)
            here = place_of(own_logits, column_stride, begin, lane, CONTIGUOUS)
            tl.store(here, float("-inf"), mask=gone & (begin + lane < width))


def truncation_step(rule: Rule, parameter: Tensor, least: Tensor, logits: Tensor) -> bool:
    """Truncate rows of logits in place.

    Args:
        rule: The truncation.
        parameter: [B] int64, the number of tokens to keep; of other rules [B] float64, the probability.
        least: [B] int64, the minimum number of tokens to keep, which `TOP_K` does not use.
        logits: [B, V] floating point.

    Returns:
        Whether it was done. If not, no kernel runs here, and nothing has happened.
    """
    counts_at = NUMBERS + 2 * KNOWN + (0 if rule is Rule.TOP_K else DIGITS * VALUES)
    rows = LogitRows.of(logits, counts_at - NUMBERS + COUNTS, by_program=1)
    if rows is None:
        return False
    # The keys of 16-bit logits end within the second digit. Those of `TypicalP` do not.
    passes = 2 if logits.dtype.itemsize < torch.float32.itemsize and rule is not Rule.TYPICAL_P else DIGITS
    others = counts_at, parameter.contiguous(), least.contiguous()
    return (
        rows.launch(best_kernel)
        and (rule is not Rule.TYPICAL_P or rows.launch(sum_kernel))
        and all(rows.launch(digit_kernel, *others, constants=(digit, int(rule))) for digit in range(passes))
        and (rule is Rule.TOP_K or rows.launch(tie_kernel, *others, constants=(passes, int(rule))))
        and rows.launch(cut_kernel, *others, constants=(passes, int(rule)))
    )
