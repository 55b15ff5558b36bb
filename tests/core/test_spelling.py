"""The fewest tokens that hold a text, against all sequences of a few tokens."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.languages.free_text import fewest_tokens

TEXT = st.text("abc", min_size=1, max_size=4).map(str.encode)


def in_order(tokens: list[bytes], text: bytes) -> int | None:
    """Try one token, then two and so on."""
    for count in range(1, len(text) + 1):
        if any(text in b"".join(some) for some in product(tokens, repeat=count)):
            return count
    return None


@given(st.lists(TEXT, min_size=1, max_size=6, unique=True), TEXT)
def test_it_is_the_number_of_the_shortest_sequence(tokens: list[bytes], text: bytes) -> None:
    vocabulary = lk.Vocabulary([*tokens, None], eos_ids=[len(tokens)])
    assert fewest_tokens(vocabulary, text) == in_order(tokens, text)
