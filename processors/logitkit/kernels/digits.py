"""Functions of kernels: find the key where a row is cut, digit by digit; see `truncation_step`.

By hand, with decimal digits: of the keys 12, 45, 47 and 81, two may go. The first digits 1, 4 and 8 occur once, twice and once.
One key begins with 1 or less, and three begin with 4 or less. So the cut begins with 4, and one key is below.
"""

from __future__ import annotations

from logitkit.kernels.language import constant, device_function, tl
from logitkit.kernels.row_sums import NUMBERS, SUM, share_of
from logitkit.kernels.truncation_rules import TOP_K, TOP_P, is_beyond, keys_of, limits_of

__all__ = ["COUNTS", "DIGITS", "KNOWN", "VALUES", "add_absent", "add_digits", "digit_of", "with_digit"]

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


@device_function
def add_digits(sums, counts, keys, scores, best, begun, inside, least, DIGIT: tl.constexpr, RULE: tl.constexpr):
    """Count a block of keys that begin as the cut does by their next digit, and add up the probabilities of their tokens.

    Args:
        sums: Pointer to the sums by digit.
        counts: Pointer to the numbers of keys by digit.
        keys, scores: The block.
        best: The best score of the row.
        begun: The beginning of the cut.
        inside: Which keys are those of columns.
        least: The minimum number of tokens to keep.

    Returns:
        Which of the keys have a token without a probability, int32; they are left to `add_absent`.
    """
    digit, begins = digit_of(keys, begun, DIGIT)
    inside = inside & begins
    place, some = DIGIT * BINS + digit, inside & (scores > float("-inf"))
    # Programs may come in any order, since sums of integers are the same.
    if RULE != TOP_K:
        share = share_of(scores, best)
        tl.atomic_add(sums + place, share, mask=some & (share > 0), sem="relaxed")
    # Usually one token has to stay, which needs no counting.
    if RULE == TOP_K or least > 1:
        tl.atomic_add(counts + place, 1, mask=some, sem="relaxed")
    return (inside & ~some).to(tl.int32)


@device_function
def add_absent(counts, absent, given, best, logarithm, entropy, begun, least, DIGIT: tl.constexpr, RULE: tl.constexpr):
    """Count the keys of tokens without a probability: after a constraint, those of most tokens, which are all the same."""
    if RULE == TOP_K or least > 1:
        never = tl.zeros([], tl.float32) + float("-inf")
        common, never = keys_of(never, given, best, logarithm, entropy, RULE)
        digit, _begins = digit_of(common, begun, DIGIT)
        # 0 unless the common key begins as the cut does.
        tl.atomic_add(counts + DIGIT * BINS + digit, absent, sem="relaxed")
