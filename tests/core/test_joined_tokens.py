"""The tokens of a vocabulary as one text, and sorted as Python sorts them."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from logitkit.vocabulary.trie import JoinedTokens
from tests import vocabularies
from tests.examples import examples

# Few different bytes, and lengths on both sides of those of a number, so that many tokens begin alike or end in zeros.
TOKENS = st.lists(st.none() | st.lists(st.sampled_from([0, 1, 97, 255]), max_size=18).map(bytes), max_size=40)


def check(tokens: list[bytes | None]) -> None:
    joined = JoinedTokens.of(tokens)
    assert joined.text.tobytes() == b"".join(token for token in tokens if token)
    assert joined.length_of_id.tolist() == [len(token or b"") for token in tokens]
    wanted = sorted([i for i, token in enumerate(tokens) if token], key=lambda i: tokens[i] or b"")
    order = joined.order()
    assert joined.ids[order].tolist() == wanted
    places = zip(joined.begin[order].tolist(), joined.length[order].tolist(), strict=True)
    assert [bytes(joined.text[begin : begin + length]) for begin, length in places] == [tokens[i] for i in wanted]


@settings(max_examples=examples(300))
@given(TOKENS)
@example([b"a", b"a\0", b"a\0\0", b"a", None, b"\0", b"abcdefgh\0", b"abcdefgh", b"abcdefghi", b""])
def test_tokens_are_joined_and_sorted_as_python_does(tokens: list[bytes | None]) -> None:
    check(tokens)


def test_the_tokens_of_real_tokenizers_are_sorted() -> None:
    for vocabulary in (vocabularies.tekken(), vocabularies.sentencepiece_32k()):
        check([*vocabulary.tokens])
