"""Patterns over two letters with short matches, and what brute force over all short texts says about them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import product

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import logitkit as lk

LONGEST = 12
TEXTS = ["".join(letters) for length in range(LONGEST + 1) for letters in product("ab", repeat=length)]

# Ids:                              0     1     2      3      4        5 = EOS
VOCABULARY = lk.Vocabulary([b"a", b"b", b"ab", b"ba", b"aab", None], eos_ids=[5])
TOKENS = ["a", "b", "ab", "ba", "aab"]

# Without a letter of its own: some texts cannot be spelled.
FEW_TOKENS = ["b", "ab", "aab", "aaa"]
FEW = lk.Vocabulary([*(token.encode() for token in FEW_TOKENS), None], eos_ids=[4])

_ITEMS = ["a", "b", "[ab]", "(?:ab|b)", "(a|ba)", "(?>a|b)"]
_COUNTS = ["", "", "?", "*", "+", "{2}", "{1,2}"]
_ASSERTIONS = ["", "", "", "(?!a)", "(?=b)", "(?!ab)", "(?<=a)", "(?<!b)", r"\b", "$", "^"]


@st.composite
def small_patterns(draw: DrawFn) -> str:
    """Patterns of which each beginning of a match of up to four letters goes on to one of at most ten."""
    return "|".join(draw(_branch()) for _ in range(draw(st.integers(1, 2))))


@st.composite
def _branch(draw: DrawFn) -> str:
    parts = [
        draw(st.sampled_from(_ASSERTIONS)) + draw(st.sampled_from(_ITEMS)) + draw(st.sampled_from(_COUNTS))
        for _ in range(draw(st.integers(1, 2)))
    ]
    return "".join(parts)


@lru_cache(maxsize=256)
def matching(pattern: str) -> frozenset[str]:
    """Return all short texts that match."""
    compiled = re.compile(pattern)
    return frozenset(text for text in TEXTS if compiled.fullmatch(text))


@lru_cache(maxsize=256)
def beginnings(pattern: str) -> frozenset[str]:
    """Return all beginnings of short texts that match."""
    return frozenset(text[:length] for text in matching(pattern) for length in range(len(text) + 1))


def tokens_to_the_end(pattern: str, text: str, tokens: Sequence[str] = TOKENS) -> int | None:
    """Return the least number of tokens that complete a text, or None if they cannot."""
    reached, count = {text}, 0
    while reached:
        if reached & matching(pattern):
            return count
        reached = {begun + token for begun in reached for token in tokens} & beginnings(pattern)
        count += 1
    return None
