r"""The symbols of a text that may hold special tokens: bytes and token ids, in one range of numbers.

The problem: the marker `"\n</think>"` may be written as a byte and a special token, or in bytes only. A search for it reads both
kinds of symbols, and keeps them in the same tables. Only this module knows the numbers.

By hand: a newline and the token 7 are the symbols 10 and 263.

Invariants: a byte is its value, so `bytes` is a sequence of symbols. All tokens come after the 256 bytes.
"""

from __future__ import annotations

__all__ = ["MarkerSymbol"]

FIRST_TOKEN = 256


class MarkerSymbol:
    """Makes and reads the numbers.

    Example:
        >>> symbol = MarkerSymbol.token(7)
        >>> symbol, MarkerSymbol.token_id(symbol), MarkerSymbol.is_byte(symbol), MarkerSymbol.is_byte(10)
        (263, 7, False, True)
    """

    @staticmethod
    def token(token_id: int) -> int:
        """Return the symbol of a token."""
        return FIRST_TOKEN + token_id

    @staticmethod
    def is_byte(symbol: int) -> bool:
        """Whether a symbol is a byte, and not a token."""
        return symbol < FIRST_TOKEN

    @staticmethod
    def token_id(symbol: int) -> int:
        """Return the id of the token that a symbol is."""
        return symbol - FIRST_TOKEN
