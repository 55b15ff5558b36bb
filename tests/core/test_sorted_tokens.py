"""Tokens sorted by their bytes, as Python sorts them."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logitkit.vocabulary.sorted_tokens import SortedTokens
from tests import vocabularies
from tests.examples import examples

# Few different bytes, and lengths on both sides of those of a number, so that many tokens begin alike or end in zeros.
TOKENS = st.lists(st.none() | st.lists(st.sampled_from([0, 1, 97, 255]), max_size=18).map(bytes), max_size=40)


def check(tokens: list[bytes | None]) -> None:
    found = SortedTokens.of(tokens)
    wanted = sorted([i for i, token in enumerate(tokens) if token], key=lambda i: tokens[i] or b"")
    assert found.ids.tolist() == wanted
    spelled = [bytes(found.text[b : b + n]) for b, n in zip(found.begin.tolist(), found.length.tolist(), strict=True)]
    assert spelled == [tokens[i] for i in wanted]


@settings(max_examples=examples(300))
@given(TOKENS)
@example([b"a", b"a\0", b"a\0\0", b"a", None, b"\0", b"abcdefgh\0", b"abcdefgh", b"abcdefghi"])
def test_tokens_are_sorted_as_python_does(tokens: list[bytes | None]) -> None:
    check(tokens)


def test_the_tokens_of_real_tokenizers_are_sorted() -> None:
    for vocabulary in (vocabularies.tekken(), vocabularies.sentencepiece_32k()):
        check([*vocabulary.tokens])
        assert np.array_equal(vocabulary.trie.tokens, SortedTokens.of(vocabulary.tokens).ids)
