"""Which ids have text: special, unknown, added, unused and padded ones; and which end a sequence."""

from __future__ import annotations

from typing import Any

import pytest
from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.tokenization_utils_sentencepiece import SentencePieceBackend

from logitkit.errors import VocabularyError
from logitkit_adapters.tokenizers import vocabulary
from tests.adapters import tokenizer_zoo as zoo
from tests.adapters.tokenizer_zoo import encode, known


def test_unknown_token_has_no_text_even_where_nobody_calls_it_special() -> None:
    plain = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁a", -1.0), ("b", -2.0)], unk_id=0))
    plain.decoder = decoders.Metaspace()
    assert vocabulary(plain, eos_ids=3, size=4).tokens == (None, b" a", b"b", None)


def test_special_tokens_have_no_text_and_added_tokens_have_theirs() -> None:
    tokenizer = zoo.wrapped(zoo.byte_level())
    size = len(tokenizer)
    tokenizer.add_tokens(["<tool>", "é 日", AddedToken("üü", lstrip=True, rstrip=True)])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_end|>"]})
    vocab = vocabulary(tokenizer)
    assert vocab.tokens[:4] == (None, None, None, None)
    assert vocab.tokens[size:] == (b"<tool>", "é 日".encode(), "üü".encode(), None)
    assert vocab.decode(encode(tokenizer, "a é 日<tool>b")) == "a é 日<tool>b".encode()
    assert (vocab.eos_ids, vocab.pad_id) == ((2,), 3)


def test_added_tokens_of_the_metaspace_and_word_piece_families_write_spaces_as_pieces_do() -> None:
    tokenizer, vocab = known("Gemma")
    pieces = tokenizer.get_vocab()
    assert vocab.tokens[pieces["▁" * 21]] == b" " * 21
    assert vocab.tokens[pieces["\n\n\n"]] == b"\n\n\n"
    assert vocab.decode(encode(tokenizer, "a" + " " * 21 + "b")) == b"a" + b" " * 21 + b"b"
    tokenizer = zoo.bert()
    tokenizer.add_tokens(["newword"])
    assert vocabulary(tokenizer, eos_ids=3).tokens[-1] == b" newword"


def test_tokens_added_later_are_seen() -> None:
    tokenizer = zoo.wrapped(zoo.byte_level())
    before = vocabulary(tokenizer)
    tokenizer.add_tokens(["<later>"])
    assert vocabulary(tokenizer).tokens == (*before.tokens, b"<later>")


def test_unused_ids_and_padded_rows_have_no_text() -> None:
    backend = Tokenizer(models.BPE({"a": 1, "Ġ": 4, "Ã": 6}, []))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    vocab = vocabulary(backend, eos_ids=8, size=10)
    assert vocab.tokens == (None, b"a", None, None, b" ", None, b"\xc3", None, None, None)
    with pytest.raises(VocabularyError, match="size=3 is less than the 7 tokens"):
        vocabulary(backend, eos_ids=0, size=3)


def test_eos_ids_replace_the_one_of_the_tokenizer() -> None:
    tokenizer = zoo.wrapped(zoo.byte_level())
    assert vocabulary(tokenizer).eos_ids == (2,)
    assert vocabulary(tokenizer, eos_ids=1).eos_ids == (1,)
    several = vocabulary(tokenizer, eos_ids=[7, 2])
    assert several.eos_ids == (2, 7)
    assert several.tokens[7] is None
    with pytest.raises(VocabularyError, match="eos_ids has 9999"):
        vocabulary(tokenizer, eos_ids=[9999])
    endless = PreTrainedTokenizerFast(tokenizer_object=zoo.byte_level())
    with pytest.raises(VocabularyError, match="Backend has no EOS id; give eos_ids="):
        vocabulary(endless)
    assert vocabulary(endless, eos_ids=2).pad_id is None


def test_ids_of_a_slow_tokenizer_are_its_own_not_those_of_its_model() -> None:
    class Shifted(SentencePieceBackend):
        """The pieces after the special ones lie one id later than in the model."""

        def _convert_token_to_id(self, token: str) -> int:
            inner = self.sp_model.piece_to_id(token)
            return inner + 1 if inner >= 4 else inner

        def _convert_id_to_token(self, index: int) -> str:
            return str(self.sp_model.id_to_piece(index - 1 if index > 4 else min(index, 3)))

    plain, shifted = zoo.slow("bpe"), zoo.slow("bpe", Shifted)
    expected = vocabulary(plain).tokens
    found = vocabulary(shifted)
    assert found.tokens[5 : len(expected)] == expected[4:-1]
    assert found.decode(encode(shifted, "the dog 12€ 𓀀")) == " the dog 12€ 𓀀".encode()


def test_user_defined_symbols_of_sentencepiece_have_text() -> None:
    tokenizer, vocab = known("SentencePiece BPE in Python")
    pieces = tokenizer.get_vocab()
    assert vocab.tokens[pieces["<call>"]] == b"<call>"
    assert vocab.tokens[pieces["▁▁▁▁"]] == b"    "


def test_unused_pieces_of_sentencepiece_have_no_text() -> None:
    messages: Any = sentencepiece_model_pb2
    proto = messages.ModelProto.FromString(zoo.sentencepiece_model("bpe"))
    piece = proto.pieces[-1]
    assert vocabulary(SentencePieceProcessor(model_proto=proto.SerializeToString())).tokens[-1]
    piece.type = messages.ModelProto.SentencePiece.UNUSED
    vocab = vocabulary(SentencePieceProcessor(model_proto=proto.SerializeToString()))
    assert vocab.tokens[-1] is None
