"""The numbers, in place of the ids of special tokens, that say which states are in a rule of a limited number of tokens.

`compiler.grammars.limited_rules` says what they mean.

By hand: the number of `OTHERS` is -1, that of `WHOLE` is -2, and the signs for at most one token are -5, -6 and -7.
"""

from __future__ import annotations

from typing import NamedTuple

from logitkit.compiler.bytes.special_tokens import WHOLE
from logitkit.errors import ConfigurationError

__all__ = ["LimitSigns", "is_limit", "other_text"]

_SIGNS = 3


class LimitSigns(NamedTuple):
    """The signs of a limit, as numbers in place of the ids of special tokens.

    Example:
        >>> signs = LimitSigns.of(5)
        >>> signs.end, LimitSigns.most_of(signs.end), LimitSigns.most_of(7)
        (-19, 5, None)
    """

    fresh: int
    later: int
    end: int

    @classmethod
    def of(cls, most: int) -> LimitSigns:
        """Return the signs of a number of tokens, at least 1."""
        first = WHOLE - _SIGNS * most
        return cls(first, first - 1, first - 2)

    @staticmethod
    def most_of(token: int) -> int | None:
        """Return the number of tokens that a sign stands for; None if it is not a sign."""
        return (WHOLE - token) // _SIGNS if token < WHOLE else None


def is_limit(token: str | int) -> bool:
    """Whether a special token of a grammar is a sign of a limit."""
    return isinstance(token, int) and token < WHOLE


def other_text(most: int) -> ConfigurationError:
    """Return the error for a rule that may stand where other text may stand too; `most` is its limit."""
    return ConfigurationError(
        f"a rule with max_tokens={most} and other text may stand in the same place, so a token could belong to either; begin "
        'and end the rule with a fixed text or a special token that the other text cannot contain, give it suffix="...", or '
        "leave out max_tokens"
    )
