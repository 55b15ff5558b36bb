"""Token bytes against texts, other readings of the same files, and the tokenizers' own decoders."""

from __future__ import annotations

import subprocess
import sys
import unicodedata
from functools import cache
from typing import Any

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
from tokenizers import normalizers

from logitkit import Vocabulary
from logitkit.errors import VocabularyError
from logitkit_adapters.tokenizers import vocabulary
from tests import vocabularies
from tests.adapters import tokenizer_zoo as zoo
from tests.adapters.tokenizer_zoo import encode, known

# U+2581 is how SentencePiece writes a space: its encoders cannot tell the two apart.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁\0"), max_size=40)
WORDS = st.lists(st.sampled_from(" ".join(zoo.SENTENCES).split()), max_size=8).map(" ".join)


@pytest.mark.parametrize("name", zoo.LOSSLESS)
@given(text=TEXTS | WORDS)
def test_bytes_of_an_encoded_text_join_to_the_text(name: str, text: str) -> None:
    tokenizer, vocab = known(name)
    ids = encode(tokenizer, text)
    assert all(vocab.tokens[i] for i in ids)
    assert vocab.decode(ids) in (text.encode(), b" " + text.encode())


@pytest.mark.parametrize("name", zoo.LOSSLESS)
def test_every_byte_is_a_token(name: str) -> None:
    assert known(name)[1].spells_every_byte


@pytest.mark.parametrize("name", ["Llama", "Gemma", "Unigram with byte fallback", "SentencePiece BPE in Python"])
def test_byte_pieces_are_the_bytes_that_they_name(name: str) -> None:
    tokenizer, vocab = known(name)
    pieces = tokenizer.get_vocab()
    assert [vocab.tokens[pieces[f"<0x{b:02X}>"]] for b in range(256)] == [bytes([b]) for b in range(256)]


def test_tokens_may_be_parts_of_a_character() -> None:
    for name in ("byte-level BPE", "Llama", "SentencePiece BPE in Python"):
        tokenizer, vocab = known(name)
        parts = [vocab.tokens[i] for i in encode(tokenizer, "𓀀")][-4:]
        assert parts == [b"\xf0", b"\x93", b"\x80", b"\x80"]


def test_ids_with_equal_bytes_stay_apart() -> None:
    tokenizer, vocab = known("Llama")
    pieces = tokenizer.get_vocab()
    assert pieces["A"] != pieces["<0x41>"]
    assert vocab.tokens[pieces["A"]] == vocab.tokens[pieces["<0x41>"]] == b"A"


def test_tekken_is_what_its_file_says() -> None:
    tekken = vocabularies.tekken().tokens
    wrapper = zoo.LOSSLESS["mistral-common Tekken in transformers"]()
    mistral = wrapper.tokenizer
    for tokenizer in (wrapper, mistral, mistral.instruct_tokenizer.tokenizer):
        vocab = vocabulary(tokenizer)
        assert vocab.tokens == tekken
        assert (vocab.eos_ids, vocab.pad_id) == ((2,), 11)
    assert known("Tekken, converted")[1].tokens[3:3000] == tekken[1003:4000]


def test_sentencepiece_of_mistral_is_what_its_file_says() -> None:
    expected = vocabularies.sentencepiece_32k()
    mistral = MistralTokenizer.v3()
    inner: Any = mistral.instruct_tokenizer.tokenizer
    for tokenizer in (mistral, inner):
        assert vocabulary(tokenizer) == expected
    assert vocabulary(inner._model) == expected


def test_backend_and_model_of_one_sentencepiece_file_agree() -> None:
    assert vocabulary(zoo.llama()).tokens == vocabulary(MistralTokenizer.v1()).tokens


def test_tiktoken_encoding_with_holes_and_special_tokens() -> None:
    ranks = {bytes([b]): b for b in range(256)} | {b"ab": 300, b"  ": 301}
    special = {"<|endoftext|>": 303, "<|im_start|>": 302}
    encoding = tiktoken.Encoding("small", pat_str=r"\w+|\W+", mergeable_ranks=ranks, special_tokens=special)
    vocab = vocabulary(encoding)
    assert vocab.tokens == (*(bytes([b]) for b in range(256)), *[None] * 44, b"ab", b"  ", None, None)
    assert vocab.eos_ids == (303,)
    without_end = tiktoken.Encoding("endless", pat_str=r"\w+|\W+", mergeable_ranks=ranks, special_tokens={})
    with pytest.raises(VocabularyError, match="'endless' has no EOS id; give eos_ids="):
        vocabulary(without_end)


@pytest.mark.parametrize("name", ["always", "first", "never", "cleanup", "no cleanup"])
@given(data=st.data())
def test_bytes_of_ids_join_to_what_the_decoder_writes_after_a_prompt(name: str, data: st.DataObject) -> None:
    tokenizer, vocab = lossy(name)
    with_text = [i for i, token in enumerate(vocab.tokens) if token is not None]
    ids = data.draw(st.lists(st.sampled_from(with_text), max_size=12))
    prompt = tokenizer.get_vocab()["t"]
    decoded = tokenizer.decode([prompt, *ids], clean_up_tokenization_spaces=False)
    assert decoded == "t" + vocab.decode(ids).decode()


@cache
def lossy(name: str) -> tuple[Any, Vocabulary]:
    tokenizer = zoo.bert(cleanup=name == "cleanup") if "cleanup" in name else zoo.wrapped(zoo.unigram(name))
    return tokenizer, vocabulary(tokenizer, eos_ids=3)


@given(text=WORDS)
def test_unigram_without_fallback_joins_to_the_text(text: str) -> None:
    tokenizer, vocab = lossy("always")
    assert vocab.decode(encode(tokenizer, text)).removeprefix(b" ") == text.encode()


def test_word_pieces_bring_the_space_before_their_word() -> None:
    tokenizer, vocab = lossy("no cleanup")
    pieces = tokenizer.get_vocab()
    ids = encode(tokenizer, "The dog, 12:30.")
    assert vocab.decode(ids) == b" the dog , 12 : 30 ."
    assert (vocab.tokens[pieces["t"]], vocab.tokens[pieces["##t"]]) == (b" t", b"t")
    assert vocab.tokens[pieces["[UNK]"]] is None
    cleaned = lossy("cleanup")[1]
    assert cleaned.decode(ids) == b" the dog, 12 : 30."


@pytest.mark.parametrize(
    ("normalizer", "text", "form"),
    [
        (normalizers.Lowercase(), "The DOG", "the dog"),
        (normalizers.NFKC(), "ﬁve Ⅳ", "five IV"),
        (normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]), "café", "cafe"),
    ],
)
def test_normalizers_act_on_the_input_alone(normalizer: Any, text: str, form: str) -> None:
    tokenizer = zoo.wrapped(zoo.byte_level(normalizer=normalizer))
    assert vocabulary(tokenizer).tokens == vocabulary(zoo.wrapped(zoo.byte_level())).tokens
    assert vocabulary(tokenizer).decode(encode(tokenizer, text)) == form.encode()


@given(text=st.text(st.characters(exclude_categories=["Cs", "Cn"], max_codepoint=0x2FFF), max_size=20))
def test_byte_level_after_a_normalizer_and_a_split_joins_to_the_normal_form(text: str) -> None:
    tokenizer = zoo.wrapped(zoo.byte_level_split())
    ids = encode(tokenizer, text)
    assert vocabulary(tokenizer).decode(ids) == unicodedata.normalize("NFC", text).encode()


def test_truncation_and_padding_of_the_tokenizer_change_nothing_and_are_kept() -> None:
    plain = vocabulary(zoo.byte_level(), eos_ids=2)
    backend = zoo.byte_level()
    backend.enable_truncation(max_length=3)
    backend.enable_padding(length=64, pad_id=3, pad_token="<pad>")
    assert vocabulary(backend, eos_ids=2) == plain
    assert (backend.truncation or {})["max_length"] == 3
    assert (backend.padding or {})["length"] == 64


def test_reading_imports_no_tokenizer_library() -> None:
    probe = (
        "import sys, logitkit_adapters.tokenizers\n"
        "libraries = {'transformers', 'tokenizers', 'sentencepiece', 'tiktoken', 'mistral_common'}\n"
        "print(libraries & sys.modules.keys())"
    )
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{probe}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "set()"
