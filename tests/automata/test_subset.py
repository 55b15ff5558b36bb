"""The subset construction: what makes it lean changes no language."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.compiler.characters import subset
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.positions import positions_of
from logitkit.compiler.characters.subset import SymbolDfa, determinise
from logitkit.limits import DEFAULT_LIMITS
from logitkit.patterns import parse
from tests.examples import examples

PIECES = ["a", "b", "[ab]", "(?:ab)", "(?:a|bc)", "c", "[abc]"]
SUFFIXES = ["", "*", "+", "?", "{1,3}"]


def automaton(pattern: str) -> tuple[SymbolDfa, Alphabet]:
    positions = positions_of(parse(pattern), DEFAULT_LIMITS)
    alphabet = Alphabet.of(positions.charsets)
    return determinise(positions, [alphabet.members[c] for c in positions.charsets], DEFAULT_LIMITS), alphabet


def accepts(dfa: SymbolDfa, symbols: list[int]) -> bool:
    state = 0
    for symbol in symbols:
        following = [target for target, mask in dfa.moves[state].items() if mask >> symbol & 1]
        if not following:
            return False
        (state,) = following
    return dfa.accepting[state]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(SUFFIXES)), min_size=1, max_size=5), st.booleans())
def test_tails_that_read_all_that_comes(parts: list[tuple[str, str]], branches: bool) -> None:
    pieces = [piece + suffix for piece, suffix in parts]
    pattern = "|".join(pieces) + "[ab]*" if branches else "".join(pieces) + "[ab]*"
    dfa, alphabet = automaton(pattern)
    symbol = {c: int(alphabet.symbols[alphabet.bounds.searchsorted(ord(c), side="right") - 1]) for c in "abc"}
    for text in (t for n in range(6) for t in product("abc", repeat=n)):
        assert accepts(dfa, [symbol[c] for c in text]) == bool(re.fullmatch(pattern, "".join(text))), text


def test_a_tail_takes_the_place_of_what_it_reads_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = r"[ab.]{1,60}\.[ab]{1,6}[ab.]*"
    lean = len(automaton(pattern)[0].moves)
    monkeypatch.setattr(subset, "MOST_LOOPS", 0)
    assert lean < len(automaton(pattern)[0].moves) / 4
