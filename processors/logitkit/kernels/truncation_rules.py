"""The rules of `TopK`, `TopP` and `TypicalP`, as kernels apply them: the keys of scores, and how many may go.

By hand, of 10 tokens: `TopK(3)` removes up to 7 of the lowest keys. `TopP(0.75)` removes those whose probabilities add up to 0.25
at most. `TypicalP(0.75)` keeps the lowest keys, up to the one with which they add up to 0.75.
"""

from __future__ import annotations

from enum import IntEnum

from logitkit.kernels.language import constant, device_function, tl
from logitkit.kernels.row_sums import ONE, PRODUCTS, SUM, key_of, scores_of

__all__ = [
    "ALL",
    "TOP_K",
    "TOP_P",
    "TYPICAL_P",
    "Rule",
    "information_of",
    "is_active",
    "is_beyond",
    "keys_of",
    "limits_of",
]


class Rule(IntEnum):
    """A truncation: whether it counts tokens or adds up probabilities, and on which side of the cut they stay."""

    TOP_K = 0
    TOP_P = 1
    TYPICAL_P = 2


TOP_K, TOP_P, TYPICAL_P = map(constant, Rule)

# More than any sum, and more than any number of columns.
NO_SUM, ALL = constant(2**62), constant(2**31 - 1)


@device_function
def is_active(parameters, row, width, RULE: tl.constexpr):
    """Return the parameter of a row, and whether the row changes."""
    parameter = tl.load(parameters + row)
    if RULE == TOP_K:
        return parameter, (parameter > 0) & (parameter < width)
    else:  # noqa: RET505 - the compiler must not see the other branch
        return parameter, parameter < 1.0


@device_function
def information_of(numbers, RULE: tl.constexpr):
    """Return the logarithm of the sum of all probabilities, and the entropy, which only `TYPICAL_P` needs.

    A program computes them once, since quotients of 64 bits take long on many devices.
    """
    if RULE == TYPICAL_P:
        total = tl.load(numbers + SUM).to(tl.float64)
        logarithm = tl.log((total / ONE).to(tl.float32))
        return logarithm, logarithm - (tl.load(numbers + PRODUCTS).to(tl.float64) / total).to(tl.float32)
    else:  # noqa: RET505 - the compiler must not see the other branch
        return 0.0, 0.0


@device_function
def keys_of(x, given, best, logarithm, entropy, RULE: tl.constexpr):
    """Return the keys of a block of logits, and the scores."""
    scores = scores_of(x, given)
    if RULE == TYPICAL_P:
        return key_of(tl.abs(logarithm - (scores - best) - entropy)), scores
    else:  # noqa: RET505 - the compiler must not see the other branch
        return key_of(scores), scores


@device_function
def limits_of(parameter, least, total, width, RULE: tl.constexpr):
    """Return the greatest sum and the greatest number of keys below the cut; see `is_beyond`.

    Args:
        parameter: That of the row.
        least: The minimum number of tokens to keep.
        total: The sum of all probabilities.
        width: The number of columns.
    """
    if RULE == TOP_K:
        return NO_SUM, width - parameter
    elif RULE == TOP_P:  # noqa: RET505 - the compiler must not see the other branches
        spared = (total.to(tl.float64) * (1.0 - parameter).to(tl.float32).to(tl.float64)).to(tl.int64)
        # The best token stays.
        return tl.minimum(spared, total - ONE), tl.where(least > 1, width - least, ALL)
    else:
        wanted = tl.ceil(total.to(tl.float64) * parameter.to(tl.float32).to(tl.float64)).to(tl.int64)
        return tl.minimum(wanted, total) - 1, tl.where(least > 1, least - 1, -1)


@device_function
def is_beyond(total, count, greatest_sum, greatest_count, RULE: tl.constexpr):
    """Return whether some keys do not all lie below the cut, given their sum and number together with all lower keys."""
    if RULE == TYPICAL_P:
        return (total > greatest_sum) & (count > greatest_count)
    else:  # noqa: RET505 - the compiler must not see the other branch
        return (total > greatest_sum) | (count > greatest_count)
