"""Symbols of automata over characters: code points, and numbers after them that stand for more than a character.

The problem: a tree reads characters, but also calls another tree, ends what was called, reads a long text or a special token, or
looks at what comes next. All of these are members of sets of characters, so that one construction serves them all. Only this
module knows their numbers: elsewhere, `Symbol` makes and reads them.

By hand: in `{"type": "object", "additionalProperties": {"$ref": "#"}}`, each member is such an object again. Where its value
stands, the tree has `Symbol.call(0)`, which is 0x110000, the first number after all code points.

Invariants: each kind has a range of numbers of its own, and no number of a kind is outside of that range.

Sets of symbols as bit masks, and how overlapping ones are cut into disjoint blocks.

A state reads `a` or `b` at one position, and `b` or `c` at another: then `a`, `b` and `c` each lead somewhere else.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal, TypeAlias

from logitkit.errors import PatternTooLarge
from logitkit.patterns.charset import MAX_CODE_POINT

__all__ = ["Blocks", "Symbol", "SymbolKind", "are_disjoint", "shared_symbols", "split"]

SymbolKind: TypeAlias = Literal["character", "call", "mark", "word", "special token", "lookahead"]

KINDS: tuple[SymbolKind, ...] = ("character", "call", "mark", "word", "special token", "lookahead")
# The first number of each kind, and the end of the last one.
CALLS = MAX_CODE_POINT + 1
MARKS, WORDS, SPECIAL_TOKENS, LOOKAHEADS, END = (CALLS + (1 << bits) for bits in range(20, 25))
FIRST = (0, CALLS, MARKS, WORDS, SPECIAL_TOKENS, LOOKAHEADS, END)


class Symbol:
    """Makes and reads the numbers.

    Example:
        >>> symbol = Symbol.special_token(3)
        >>> Symbol.kind(symbol), Symbol.number(symbol), Symbol.is_character(symbol), Symbol.kind(ord("a"))
        ('special token', 3, False, 'character')
    """

    @staticmethod
    def call(number: int) -> int:
        """Return the symbol of a call of the rule with this number."""
        return _made(CALLS, MARKS, number)

    @staticmethod
    def mark(number: int) -> int:
        """Return the symbol that ends what was called, and says which of several rules the text belongs to."""
        return _made(MARKS, WORDS, number)

    @staticmethod
    def word(number: int) -> int:
        """Return the symbol of a whole text, such as a long name, which is read in one step."""
        return _made(WORDS, SPECIAL_TOKENS, number)

    @staticmethod
    def special_token(number: int) -> int:
        """Return the symbol of the special token with this place in a list."""
        return _made(SPECIAL_TOKENS, LOOKAHEADS, number)

    @staticmethod
    def lookahead(number: int) -> int:
        """Return the symbol of a condition on the next character."""
        return _made(LOOKAHEADS, END, number)

    @staticmethod
    def is_character(symbol: int) -> bool:
        """Whether a symbol is a code point."""
        return symbol < CALLS

    @staticmethod
    def is_call(symbol: int) -> bool:
        """Whether a symbol is a call."""
        return CALLS <= symbol < MARKS

    @staticmethod
    def is_word(symbol: int) -> bool:
        """Whether a symbol is a whole text."""
        return WORDS <= symbol < SPECIAL_TOKENS

    @staticmethod
    def is_special_token(symbol: int) -> bool:
        """Whether a symbol is a special token."""
        return SPECIAL_TOKENS <= symbol < LOOKAHEADS

    @staticmethod
    def kind(symbol: int) -> SymbolKind:
        """Return what a symbol stands for."""
        return KINDS[bisect_right(FIRST, symbol) - 1]

    @staticmethod
    def number(symbol: int) -> int:
        """Return the number that a symbol was made of; of a character, its code point."""
        return symbol - FIRST[bisect_right(FIRST, symbol) - 1]


def _made(first: int, end: int, number: int) -> int:
    if not 0 <= number < end - first:
        raise PatternTooLarge(
            f"the symbol of a {Symbol.kind(first)} has the number {number}; allowed are numbers below {end - first:,}; use fewer"
        )
    return first + number


# Disjoint sets of symbols, each with the indices of the sets that hold it.
Blocks: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]


def are_disjoint(future: tuple[int, ...], masks: list[int]) -> bool:
    """Whether no two of some positions read the same symbol."""
    union = 0
    for position in future:
        if union & masks[position]:
            return False
        union |= masks[position]
    return True


def shared_symbols(masks: tuple[int, ...]) -> int:
    """Return the symbols that several sets hold."""
    union = 0
    shared = 0
    for mask in masks:
        shared |= union & mask
        union |= mask
    return shared


def split(masks: tuple[int, ...]) -> Blocks:
    """Cut overlapping sets of symbols into disjoint blocks, each with the indices of the sets that hold it.

    Example:
        >>> split((0b011, 0b110))
        ((1, (0,)), (2, (0, 1)), (4, (1,)))
    """
    overlap = shared_symbols(masks)
    blocks: dict[tuple[int, ...], int] = {}
    for index, mask in enumerate(masks):
        alone = mask & ~overlap
        if alone:
            blocks[(index,)] = alone
    while overlap:
        symbol = overlap & -overlap
        overlap ^= symbol
        members = tuple(i for i, m in enumerate(masks) if m & symbol)
        blocks[members] = blocks.get(members, 0) | symbol
    return tuple((block, members) for members, block in sorted(blocks.items()))
