"""Tokenizers whose bytes are not certain are refused, with what was found and what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import ByT5Tokenizer
from transformers.tokenization_utils_sentencepiece import SentencePieceBackend

import logitkit as lk
from logitkit.errors import VocabularyError
from logitkit_adapters.tokenizers import DecoderChain, decoder_chain, verification, vocabulary
from tests.adapters import tokenizer_zoo as zoo


def backend_with(decoder: Any, **model_options: Any) -> Tokenizer:
    backend = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], **model_options))
    if decoder is not None:
        backend.decoder = decoder
    return backend


class Shouting:
    """A decoder written in Python."""

    def decode_chain(self, tokens: list[str]) -> list[str]:
        return [token.upper() for token in tokens]


REPLACE, FALLBACK, FUSE = decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()


@pytest.mark.parametrize(
    ("decoder", "found"),
    [
        (None, "its backend has no decoder"),
        (decoders.CTC(), "its decoder has the step {'type': 'CTC'"),
        (decoders.BPEDecoder(), "its decoder has the step {'type': 'BPEDecoder'"),
        (
            decoders.Sequence([REPLACE, decoders.BPEDecoder()]),
            "'BPEDecoder', 'suffix': '</w>'} after Replace",
        ),
        (decoders.Decoder.custom(Shouting()), "its decoder Decoder cannot be serialised"),
        (
            decoders.Sequence([decoders.Strip(" ", 1, 0), FUSE]),
            "'Strip', 'content': ' ', 'start': 1, 'stop': 0}",
        ),
        (decoders.Sequence([FUSE, decoders.Strip(" ", 0, 1)]), "'start': 0, 'stop': 1} after Fuse"),
        (decoders.Sequence([FUSE, decoders.Replace("ab", "c")]), "'content': 'c'} after Fuse"),
        (decoders.Sequence([FALLBACK, decoders.Metaspace()]), "'Metaspace'.* after ByteFallback"),
        (decoders.Sequence([FUSE, FALLBACK]), "'ByteFallback'} after Fuse"),
    ],
)
def test_decoders_that_are_unknown_or_act_across_pieces(decoder: Any, found: str) -> None:
    with pytest.raises(VocabularyError, match=found) as caught:
        vocabulary(backend_with(decoder), eos_ids=3, size=4)
    message = str(caught.value)
    assert message.startswith("cannot recover the token bytes of tokenizers.Tokenizer: ")
    assert "supported are `tokenizers` backends whose decoder is ByteLevel, Metaspace, WordPiece, or Replace" in message
    assert message.endswith(
        "otherwise build it yourself: logitkit.Vocabulary(tokens, eos_ids), "
        "with the bytes that each id adds to the text"
    )


def test_replacement_of_a_regular_expression() -> None:
    state = {"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}
    with pytest.raises(VocabularyError, match=r"bytes of X: its decoder has the step .*'Regex': 'a\+'"):
        DecoderChain.parse(state, "X")


def test_pieces_that_end_words() -> None:
    backend = backend_with(decoders.ByteLevel(), end_of_word_suffix="</w>")
    with pytest.raises(VocabularyError, match="its BPE model ends words with '</w>'"):
        vocabulary(backend, eos_ids=3, size=4)


@pytest.mark.parametrize(
    ("tokenizer", "name"),
    [
        (ByT5Tokenizer(), "ByT5Tokenizer"),
        (object(), "builtins.object"),
        ("gpt2", "builtins.str"),
        (None, "NoneType"),
    ],
)
def test_objects_of_an_unknown_kind_are_refused(tokenizer: Any, name: str) -> None:
    with pytest.raises(VocabularyError, match=f"{name}: it is of no known kind, such as a tokenizer written in Python"):
        vocabulary(tokenizer)


def test_a_vocabulary_is_not_a_tokenizer() -> None:
    known = lk.Vocabulary([b"a", None], eos_ids=[1])
    with pytest.raises(VocabularyError, match="the tokenizer is a Vocabulary; pass the tokenizer of the model"):
        vocabulary(known)


def test_encoder_that_does_not_write_the_bytes_that_the_decoder_reads() -> None:
    backend = zoo.byte_level()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    found = "it encodes 'plain words only' with tokens whose bytes join to b'plainwordsonly'"
    with pytest.raises(VocabularyError, match=found):
        vocabulary(zoo.wrapped(backend))


def test_encoder_that_writes_special_tokens_into_a_text() -> None:
    tokenizer = zoo.wrapped(zoo.byte_level())
    tokenizer.add_special_tokens({"additional_special_tokens": ["words"]})
    with pytest.raises(VocabularyError, match=r"encodes 'plain words only' with the ids \[\d+\], which have no text"):
        vocabulary(tokenizer)


def test_added_token_that_took_the_id_of_a_byte() -> None:
    tokenizer = zoo.wrapped(zoo.byte_level())
    tokenizer.add_tokens(["é"])  # the character with which byte-level BPE writes the byte E9
    with pytest.raises(
        VocabularyError, match=r"its added token 'é' has id \d+, which belongs to a piece with other bytes"
    ):
        vocabulary(tokenizer)


def test_slow_tokenizer_that_changes_texts_before_its_model() -> None:
    class Translating(SentencePieceBackend):
        def _tokenize(self, text: str, **kwargs: Any) -> Any:
            return super()._tokenize(text.replace(" ", "_"), **kwargs)

    with pytest.raises(VocabularyError, match=r"Translating: it encodes 'plain words only' with .*plain_words"):
        vocabulary(zoo.slow("bpe", Translating))


def test_slow_tokenizer_with_pieces_that_its_model_does_not_have() -> None:
    class Renaming(SentencePieceBackend):
        def _convert_id_to_token(self, index: int) -> str:
            return f"piece {index}"

    with pytest.raises(VocabularyError, match="Renaming: its id 4 is 'piece 4', which its SentencePiece model"):
        vocabulary(zoo.slow("bpe", Renaming))


@pytest.mark.parametrize(
    ("decoder", "special"),
    [(decoders.WordPiece(cleanup=True), "."), (decoders.Metaspace(), "▁x"), (decoders.ByteLevel(), "Ġx")],
)
def test_a_decoder_is_checked_over_every_piece(decoder: Any, special: str) -> None:
    """A wrong reading of any one piece is found: each is replaced in turn by a wrong one."""
    chain = DecoderChain.parse(json.loads(decoder.__getstate__()), "X")
    pieces = ["y", special, "##z", "do", "not"]
    read = chain.read(pieces)
    verification.verify_decoder("X", chain, decoder.decode, pieces, read)
    for i in range(len(pieces)):
        wrong = [*read[:i], read[i] + b"!", *read[i + 1 :]]
        with pytest.raises(VocabularyError, match="its decoder turns"):
            verification.verify_decoder("X", chain, decoder.decode, pieces, wrong)


def test_a_decoder_that_was_misread_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_chain, "_WORD_PIECE_CLEANUP", ())
    # Which of the misread pieces is met first depends on the order of a hash map in the tokenizer.
    found = r"BertTokenizer: its decoder turns \['a', .+\] into .+; the piece was read as b"
    with pytest.raises(VocabularyError, match=found):
        vocabulary(zoo.bert(cleanup=True), eos_ids=3)


def test_byte_pieces_are_checked_too() -> None:
    decoder = decoders.Sequence([REPLACE, FALLBACK, FUSE])
    chain = DecoderChain.parse(json.loads(decoder.__getstate__()), "X")
    pieces = [f"<0x{b:02X}>" for b in range(256)]
    read = [bytes([b]) for b in range(256)]
    verification.verify_decoder("X", chain, decoder.decode, pieces, read)
    read[0xC3], read[0xC4] = read[0xC4], read[0xC3]
    with pytest.raises(VocabularyError, match="turns the byte pieces of"):
        verification.verify_decoder("X", chain, decoder.decode, pieces, read)
