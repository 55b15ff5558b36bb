"""Texts that are appended, and the text that tokens have added, against Python's strings."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
import torch
import transformers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logitkit.errors import ConfigurationError
from logitkit.sessions.text_continuation import added_text, continuation
from logitkit.sessions.text_tokenizer import TextTokenizer
from logitkit_adapters.sessions import Session, continuous
from tests.adapters.tokenizer_zoo import LOSSLESS, bert, encode, known
from tests.sessions.engines import ENGINES, loaded
from tests.sessions.spelling import Pieces, SpaceFirst, state_of

BEGINNINGS = [
    "Hello",
    "Hello ",
    " a",
    "one two.",
    "\n",
    "日本",
    "3",
    "😀",
    "x  ",
    "é's",
    "Q: a?\nA:",
    "(",
    "the the",
    "ab",
]
ENDS = ["xy", " xy", "Hello", "\n", "\nUser:", "  ", "日本語", "é", "😀😀", "1", " 1", "'s", ".", ")", "a b c", "\n\n"]
# Those that transformers runs in Python decode a byte as its name, and take all space away from both ends.
KINDS = [name for name in LOSSLESS if "in Python" not in name]
SPACED = {"space first": SpaceFirst([b"ab", b" the"]), "pieces": Pieces([b"ab", b" the"])}
texts = st.text(st.sampled_from("abxy é€日本😀\n."), min_size=1, max_size=12)


def tokens(name: str, text: str) -> list[int]:
    return SPACED[name].encode(text, add_special_tokens=False) if name in SPACED else encode(known(name)[0], text)


def tokenizer_of(name: str) -> Any:
    return SPACED[name] if name in SPACED else known(name)[0]


@pytest.mark.parametrize("name", [*KINDS, *SPACED])
def test_appending_a_text_is_python_s(name: str) -> None:
    for beginning in BEGINNINGS:
        state = state_of([tokens(name, beginning)], tokenizer=tokenizer_of(name))
        for end in ENDS:
            longer = state + end
            assert str(longer) == str(state) + end
            # All tokens that were there stay.
            assert longer.rows[0][: len(state.rows[0])] == state.rows[0]
        assert str(longer + "xy" + " xy") == str(longer) + "xy xy"


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_adding_to_a_state_that_ends_inside_of_a_character(name: str, cut: int) -> None:
    """The bytes of the character are left out, as the text of the state is without them."""
    for beginning in ["Price: €", "a😀", "😀", "日本🦄"]:
        state = state_of([tokens(name, beginning)[:-cut]], tokenizer=tokenizer_of(name))
        if not state.rows[0]:
            continue
        other = state_of([tokens(name, "Hi")], tokenizer=tokenizer_of(name))
        for end in ("\nUser: thanks", "é", " x"):
            assert str(state + end) == str(state) + end
        assert str(state + other) == str(state) + str(other)
        if "\ufffd" in tokenizer_of(name).decode(state.rows[0]):
            # The rest of the character still completes it.
            whole = state_of([tokens(name, beginning)], tokenizer=tokenizer_of(name))
            assert (whole.tokens[: len(state.rows[0])] + whole.tokens[len(state.rows[0]) :]).rows == whole.rows


def test_a_sum_without_an_incomplete_character_knows_which_tokens_are_new() -> None:
    tokenizer = Pieces([])
    left, right = (state_of([list(text)], tokenizer=tokenizer) for text in ("a€".encode()[:-1], b"Hello"))
    both = left + right
    assert list(both) == ["aHello"]
    assert list(both.new_texts) == ["Hello"]
    # A special token at the end stays.
    ended = state_of([[*"a€".encode()[:-1], tokenizer.eos_token_id]], tokenizer=tokenizer)
    assert tokenizer.eos_token_id in (ended + "x").rows[0]
    # Cut off at both ends.
    middle = state_of([list("😀abc😀".encode()[1:-1])], tokenizer=tokenizer)
    assert str(middle + "Hi") == "abcHi"
    assert list(middle + right) == ["abcHello"]


@pytest.mark.parametrize("name", [*KINDS, *SPACED])
@given(first=texts, second=texts)
@settings(max_examples=15)
@example(first="one", second="xy")
@example(first="one", second=" xy")
@example(first="one ", second="  xy")
def test_joining_two_states_is_python_s(name: str, first: str, second: str) -> None:
    one, other = (state_of([tokens(name, text)], tokenizer=tokenizer_of(name)) for text in (first, second))
    assert str(one + other) == str(one) + str(other)
    assert str(one + (other + first)) == str(one) + str(other) + first


@pytest.mark.parametrize("name", ["Llama", "Gemma", "Tekken, converted", "demo model"])
def test_special_tokens_in_a_text_are_tokens_and_no_text(name: str) -> None:
    kind = copy.deepcopy(known(name)[0])
    kind.add_special_tokens({"additional_special_tokens": ["<|turn|>"]})
    (turn,) = kind.convert_tokens_to_ids(["<|turn|>"])
    state = state_of([encode(kind, "Hello")], tokenizer=kind)
    for text, seen in (
        ("<|turn|>", ""),
        ("<|turn|>xy", "xy"),
        ("a<|turn|>\nxy", "a\nxy"),
        ("\n<|turn|>xy\n", "\nxy\n"),
    ):
        longer = state + text
        assert longer.rows[0].count(turn) == 1
        assert str(longer) == "Hello" + seen
    # It is not lost where states are joined.
    chat = state + state_of([encode(kind, "<|turn|>xy")], tokenizer=kind)
    assert chat.rows[0].count(turn) == 1


def test_what_a_tokenizer_cannot_spell_is_added_as_it_reads_it_or_refused() -> None:
    lower = bert()
    state = state_of([encode(lower, "the dog")], tokenizer=lower)
    assert str(state + " FOX") == "the dog fox"
    assert str(state + "s") == "the dogs"

    class Backwards(Pieces):
        def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
            return super().encode(text[::-1], add_special_tokens=False)

    state = state_of([[97]], tokenizer=Backwards())
    with pytest.raises(
        ConfigurationError, match="'xy' is appended, but the tokenizer's tokens for it add 'yx', and it has"
    ):
        state + "xy"


@pytest.mark.parametrize("name", [*KINDS, *SPACED])
@given(first=texts, second=texts)
@settings(max_examples=15)
@example(first="日本日本日本日本日本", second="日本")
@example(first="Hello", second=" xy")
@example(first="😀" * 12, second="😀" * 6)
def test_added_text_is_what_python_sees(name: str, first: str, second: str) -> None:
    kind = TextTokenizer(tokenizer_of(name))
    ids = tokens(name, first)
    new = continuation(ids, second, kind)
    assert added_text(ids, new, kind) == second
    for count in range(1, len(new) + 1):
        part = added_text(ids, new[:count], kind)
        assert second.startswith(part)
        assert "\ufffd" not in part
        assert kind.text(ids) + part == kind.text([*ids, *new[:count]])


@cache
def llama_2() -> tuple[Any, Any]:
    """Return a small random model with a SentencePiece vocabulary that says a few hundred of its pieces, and its tokenizer."""
    tokenizer = copy.deepcopy(known("Llama")[0])
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=32_000, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=512, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval(), tokenizer


def test_a_chat_with_a_tokenizer_that_hides_spaces() -> None:
    model, tokenizer = llama_2()
    spaces = 0
    with Session(model, tokenizer) as session:
        said = "Question: Is Paris in France?\nAnswer:"
        for turn in range(12):
            ids = tokenizer(said).input_ids
            row = session.generate(said, max_new_tokens=5, seed=turn).rows[0]
            whole = TextTokenizer(tokenizer).text([*ids, *row.token_ids])
            assert said + row.text == whole
            spaces += row.text.startswith(" ")
            said += row.text + "\nQuestion: Why?\nAnswer:"
    assert spaces > 2
    text = continuous(model, tokenizer, seed=3)
    state = text("Question: Is it?\nAnswer:", max_new_tokens=5)
    for _ in range(4):
        longer = state + "xy\nAnswer:"
        assert str(longer) == str(state) + "xy\nAnswer:"
        state = text(longer, max_new_tokens=5)
        assert str(state).startswith(str(longer))


@pytest.mark.parametrize("name", ENGINES)
def test_text_is_what_was_added_in_every_engine(name: str) -> None:
    model, tokenizer = loaded(name)
    with Session(model, tokenizer, max_length=256) as session:
        said = "Question: Is Paris in France?\nAnswer:"
        text = continuous(model, tokenizer)
        for _ in range(3):
            turn = session.generate(said, max_new_tokens=12)
            assert str(text(said, max_new_tokens=12)) == said + turn.text
            said += turn.text + "\nQuestion: Is it?\nAnswer:"
        assert "</s>" not in said
