"""Slices by characters, against Python's."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logitkit import SequenceState
from logitkit.errors import ConfigurationError
from logitkit.sessions.text_cut import cut_text
from logitkit.sessions.text_tokenizer import TextTokenizer
from tests.adapters.demo import tokenizer as shipped
from tests.adapters.tokenizer_zoo import encode, known
from tests.sessions.spelling import Pieces, SpaceFirst, state_of

PIECES = [
    b"ab",
    b"abc",
    " é".encode(),
    "€".encode()[:2],
    "é".encode()[1:] + b"x",
    "日本".encode(),
    "😀".encode()[1:],
    b" the",
]
KINDS = {"pieces": Pieces(PIECES), "space first": SpaceFirst(PIECES), "shipped": shipped()}
ZOO = (
    "byte-level BPE with prefix space",
    "Tekken, converted",
    "Llama",
    "Llama, legacy",
    "Gemma",
    "SentencePiece, bare",
    "mistral-common Tekken in transformers",
)
texts = st.text(st.sampled_from("abcx é€日本😀 the\n"), max_size=24)
short = st.text(st.sampled_from("abcx é€日本😀 the\n"), min_size=1, max_size=5)
ends = st.none() | st.integers(-30, 30)


@pytest.mark.parametrize("kind", KINDS)
@given(text=texts, start=ends, stop=ends)
@example(text="abc", start=None, stop=2)
@example(text="a€b", start=2, stop=None)
@example(text="x€€", start=0, stop=2)
def test_equals_python(kind: str, text: str, start: int | None, stop: int | None) -> None:
    state = state_of([KINDS[kind].encode(text, add_special_tokens=False) or [65]], tokenizer=KINDS[kind])
    whole = str(state)
    assert str(state[start:stop]) == whole[start:stop]
    assert "\ufffd" not in str(state[start:stop])


@pytest.mark.parametrize("name", ZOO)
@given(text=texts.filter(bool), start=st.integers(-30, 30), stop=st.integers(-30, 30))
@settings(max_examples=20)
@example(text="a 日本 the x", start=0, stop=3)
@example(text="ab the", start=3, stop=6)
@example(text="ab the", start=0, stop=4)
def test_equals_python_with_tokenizers_of_all_kinds(name: str, text: str, start: int, stop: int) -> None:
    kind = known(name)[0]
    state = state_of([encode(kind, text)], tokenizer=kind)
    whole = str(state)
    # Some take a space away that they have not put there.
    assert whole.lstrip(" ") == text.lstrip(" ")
    for part in (slice(0, stop), slice(start, stop), slice(start, None)):
        assert str(state[part]) == whole[part]


@given(
    ids=st.lists(st.integers(0, 257 + len(PIECES)), min_size=1, max_size=12),
    stop=st.integers(-14, 14),
    start=st.integers(0, 12),
)
def test_equals_python_where_bytes_are_not_text(ids: list[int], stop: int, start: int) -> None:
    state = state_of([ids], tokenizer=KINDS["pieces"])
    whole = str(state)
    assert str(state[:stop]) == whole[:stop]
    assert str(state[start:stop]) == whole[start:stop]


@given(
    ids=st.lists(st.integers(3, 1279), min_size=1, max_size=12), start=st.integers(-20, 20), stop=st.integers(-20, 20)
)
def test_equals_python_after_any_tokens_of_the_shipped_model(ids: list[int], start: int, stop: int) -> None:
    state = state_of([ids], tokenizer=shipped())
    whole = str(state)
    assert whole in shipped().decode(ids)
    assert str(state[start:stop]) == whole[start:stop]


def test_integers_are_single_characters() -> None:
    state = state_of([Pieces().encode("a€b")])
    assert [str(state[i]) for i in (0, 1, 2, -1, -3)] == ["a", "€", "b", "b", "a"]


def test_only_the_remainder_of_a_token_is_encoded_again() -> None:
    kind = Pieces([b"ab", b"cde"])
    # "ab" spelled as two tokens, as no tokenizer would: tokens before the cut stay what they are.
    state = state_of([[97, 98, *kind.encode("cde", add_special_tokens=False)]], tokenizer=kind)
    assert state[:4].rows == ((97, 98, 99, 100),)
    assert state[1:].rows == ((98, kind.ids[b"cde"]),)
    assert state[3:].rows == ((100, 101),)


def test_a_cut_inside_a_token_that_ends_in_half_a_character() -> None:
    kind = Pieces([b"x" + "é".encode()[:1]])
    state = state_of([kind.encode("axéb", add_special_tokens=False)], tokenizer=kind)
    assert len(state.rows[0]) == 4
    assert (str(state[:2]), state[:2].rows) == ("ax", ((97, 120),))
    assert (str(state[2:]), str(state[1:2]), str(state[:3])) == ("éb", "x", "axé")


def test_an_unfinished_character_is_not_text_but_stays_a_token() -> None:
    state = state_of([[97, *"€".encode()[:2]]])
    assert (str(state), list(state), str(state[:]), str(state[:5])) == ("a", ["a"], "a", "a")
    assert state[:].rows == state[:5].rows == state.rows
    assert state[:1].rows == state[0:].rows == state.rows
    # In a sum it would become a replacement character.
    assert (state.tokens[:2] + "b").rows == ((97, 98),)


def check_slices_of_tokens(state: SequenceState) -> None:
    """Every slice of tokens is a part of the text, without the characters that it cuts through."""
    whole, (row,) = str(state), state.rows
    for start in range(len(row)):
        for stop in range(start + 1, len(row) + 1):
            part = state.tokens[start:stop]
            assert part.rows == (row[start:stop],)
            assert "\ufffd" not in str(part)
            assert str(part) in whole
            # It can be sliced again.
            assert str(part[:2]) == str(part)[:2]


@pytest.mark.parametrize("kind", KINDS)
@given(text=short)
@settings(max_examples=15)
@example(text="a€b")
@example(text="€€")
@example(text="日😀é")
def test_slices_of_tokens_have_no_replacement_characters(kind: str, text: str) -> None:
    check_slices_of_tokens(state_of([KINDS[kind].encode(text, add_special_tokens=False)], tokenizer=KINDS[kind]))


@pytest.mark.parametrize("name", ZOO)
@given(text=short)
@settings(max_examples=5)
@example(text="a 日😀 é x")
@example(text="é日本")
def test_slices_of_tokens_have_none_with_tokenizers_of_all_kinds(name: str, text: str) -> None:
    kind = known(name)[0]
    check_slices_of_tokens(state_of([encode(kind, text)], tokenizer=kind))


def test_a_replacement_character_that_somebody_wrote_is_text() -> None:
    assert str(state_of([Pieces().encode("a\ufffd")])) == "a\ufffd"


def test_a_written_replacement_character_keeps_the_tokens_around_it() -> None:
    ids = Pieces().encode("\ufffdab\ufffdc", add_special_tokens=False)
    state = state_of([ids])
    for stop, kept in ((1, 3), (2, 4), (3, 5), (4, 8), (5, 9)):
        assert cut_text(ids, 0, stop, TextTokenizer(Pieces())) == (kept, [])
        assert state[:stop].rows == (tuple(ids[:kept]),)


def test_a_cut_after_a_byte_that_is_shown_as_a_replacement_character_keeps_the_tokens_before_it() -> None:
    # Byte 0xE2 begins a character that never comes: within the text it is U+FFFD, at its end nothing.
    ids = [97, 98, 0xE2, 99]
    assert str(state_of([ids])) == "ab\ufffdc"
    assert cut_text(ids, 0, 3, TextTokenizer(Pieces())) == (2, [*"\ufffd".encode()])


def test_bos_is_not_text_and_stays_at_the_beginning() -> None:
    state = state_of([Pieces().encode("abc")])
    assert (str(state), state[:0].rows, state[:2].rows) == ("abc", ((256,),), ((256, 97, 98),))
    assert state[1:].rows == ((98, 99),)


def test_a_tokenizer_that_loses_text_cannot_slice_inside_a_token() -> None:
    class Lossy(Pieces):
        def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
            return [63] * len(text)

    kind = Lossy([b"abc"])
    state = state_of([[kind.ids[b"abc"]]], tokenizer=kind)
    with pytest.raises(ConfigurationError, match=r"state\.tokens"):
        state[:2]
