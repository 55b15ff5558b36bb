"""Numbers after all code points that stand for calls, words and special tokens, and those of bytes and tokens in markers."""

from __future__ import annotations

from itertools import pairwise

import pytest

from logitkit.compiler.characters.symbols import Symbol
from logitkit.errors import PatternTooLarge
from logitkit.patterns.charset import MAX_CODE_POINT
from logitkit.vocabulary.marker_symbol import MarkerSymbol

MAKERS = {
    "call": Symbol.call,
    "mark": Symbol.mark,
    "word": Symbol.word,
    "special token": Symbol.special_token,
    "lookahead": Symbol.lookahead,
}


def most(kind: str) -> int:
    """Return the greatest number that a kind takes, by bisection."""
    allowed, refused = 0, 2**40
    while refused - allowed > 1:
        number = (allowed + refused) // 2
        try:
            MAKERS[kind](number)
        except PatternTooLarge:
            refused = number
        else:
            allowed = number
    return allowed


@pytest.mark.parametrize("kind", MAKERS)
def test_a_symbol_is_read_as_it_was_made(kind: str) -> None:
    assert most(kind) >= 2**20 - 1
    for number in (0, 1, 77, most(kind)):
        symbol = MAKERS[kind](number)
        assert symbol > MAX_CODE_POINT
        assert (Symbol.kind(symbol), Symbol.number(symbol)) == (kind, number)
        assert not Symbol.is_character(symbol)
        assert Symbol.is_call(symbol) == (kind == "call")
        assert Symbol.is_word(symbol) == (kind == "word")
        assert Symbol.is_special_token(symbol) == (kind == "special token")


def test_kinds_share_no_symbol() -> None:
    ranges = sorted((make(0), make(most(kind))) for kind, make in MAKERS.items())
    assert all(last < first for (_, last), (first, _) in pairwise(ranges))


@pytest.mark.parametrize("symbol", [0, ord("a"), 0xD800, MAX_CODE_POINT])
def test_a_code_point_stands_for_a_character(symbol: int) -> None:
    assert (Symbol.kind(symbol), Symbol.number(symbol)) == ("character", symbol)
    assert Symbol.is_character(symbol)
    others = (Symbol.is_call, Symbol.is_word, Symbol.is_special_token)
    assert not any(is_kind(symbol) for is_kind in others)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_number_that_would_be_another_symbol_is_refused(kind: str) -> None:
    for number in (-1, most(kind) + 1):
        with pytest.raises(PatternTooLarge, match=f"the symbol of a {kind} has the number {number}; allowed"):
            MAKERS[kind](number)


def test_a_byte_of_a_marker_is_its_value_and_no_token() -> None:
    tokens = [MarkerSymbol.token(token) for token in (0, 1, 70_000)]
    assert [MarkerSymbol.token_id(symbol) for symbol in tokens] == [0, 1, 70_000]
    assert [MarkerSymbol.is_byte(symbol) for symbol in (*bytes([0, 10, 255]), *tokens)] == [True] * 3 + [False] * 3
