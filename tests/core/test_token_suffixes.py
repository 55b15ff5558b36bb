"""The suffixes of the tokens of a vocabulary, compared with what slicing says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.vocabulary.token_suffixes import TokenSuffixes
from logitkit.vocabulary.trie import JoinedTokens
from tests.examples import examples

TOKENS = st.lists(
    st.one_of(st.none(), st.binary(min_size=1, max_size=6).map(lambda b: bytes(b'"}]a,:'[x % 6] for x in b)))
)


@settings(max_examples=examples(200), deadline=None)
@given(TOKENS)
def test_each_end_of_a_token_has_a_number(tokens: list[bytes | None]) -> None:
    found = TokenSuffixes.of(JoinedTokens.of(tokens))
    texts = [b""] + [b""] * (len(found) - 1)
    for token, text in enumerate(tokens):
        for at, byte in enumerate(text or b""):
            left = len(text or b"") - at - 1
            if byte in b'"}]':
                number = int(found.of_token.find(np.array([token]), np.array([left]))[0])
                assert (number == 0) == (left == 0)
                if left:
                    texts[number] = (text or b"")[-left:]
    assert len(set(texts)) == len(texts)
    assert found.length.tolist() == [len(text) for text in texts]
    for number, text in enumerate(texts):
        for length in range(len(text) + 1):
            if text[len(text) - length :] in texts:
                shorter = int(found.of_suffix.find(np.array([number]), np.array([length]))[0])
                assert texts[shorter] == text[len(text) - length :]


def test_other_ends_have_none() -> None:
    tokens = [b'"ab', b"ab"]
    found = TokenSuffixes.of(JoinedTokens.of(tokens))
    with pytest.raises(LookupError, match="no remainder"):
        found.of_token.find(np.array([1]), np.array([1]))
