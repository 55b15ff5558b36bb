"""The bytes of tokens, read out of a model that llama.cpp has loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import llama_cpp
import pytest

import logitkit as lk
from logitkit.errors import VocabularyError
from logitkit_adapters.demo.gguf_file import UInt32, encode_gguf
from logitkit_adapters.llama_cpp import vocabulary
from tests.adapters import demo
from tests.adapters.demo_llama_cpp import llama, loaded

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
SHAPE = ("context_length", "embedding_length", "feed_forward_length", "attention.head_count")

# A vocabulary of the SentencePiece kind: what GGUF has for a token, and what it adds to a text.
PIECES = [
    ("<unk>", UNKNOWN, None),
    ("<s>", CONTROL, None),
    ("</s>", CONTROL, None),
    ("<0x0A>", BYTE, b"\n"),
    ("<0xE2>", BYTE, b"\xe2"),
    ("▁", NORMAL, b" "),
    ("▁the", NORMAL, b" the"),
    ("the", NORMAL, b"the"),
    ("▁▁", NORMAL, b"  "),
    ("é", NORMAL, "é".encode()),
    ("<unused0>", UNUSED, None),
    ("<tool>", USER_DEFINED, b"<tool>"),
    ("<|im_end|>", CONTROL, None),
    ("<start_of_turn>", CONTROL, None),
    ("=" * 300, NORMAL, b"=" * 300),
]


def written(path: Path, eos: int | None, **metadata: Any) -> llama_cpp.Llama:
    """A model of a vocabulary alone."""
    texts, kinds, _ = zip(*PIECES, strict=True)
    content = encode_gguf(
        {
            "general.architecture": "llama",
            "llama.block_count": UInt32(1),
            **{f"llama.{name}": UInt32(2) for name in SHAPE},
            "llama.attention.layer_norm_rms_epsilon": 1e-6,
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": texts,
            "tokenizer.ggml.scores": [-float(i) for i in range(len(texts))],
            "tokenizer.ggml.token_type": kinds,
            "tokenizer.ggml.bos_token_id": UInt32(1),
            **({} if eos is None else {"tokenizer.ggml.eos_token_id": UInt32(eos)}),
            **metadata,
        },
        {},
    )
    path.write_bytes(content)
    return llama_cpp.Llama(str(path), vocab_only=True, verbose=False)


def test_it_is_that_of_transformers() -> None:
    assert vocabulary(llama()) == demo.vocabulary()
    assert vocabulary(loaded(vocab_only=True)) == demo.vocabulary()


def test_pieces_are_read_as_llama_cpp_writes_them(tmp_path: Path) -> None:
    engine = written(tmp_path / "pieces.gguf", 2)
    read = vocabulary(engine)
    assert read.tokens == tuple(text for _, _, text in PIECES)
    every = [i for i, text in enumerate(read.tokens) if text is not None and len(text) < 32]
    assert engine.detokenize([7, *every]) == b"the" + read.decode(every)


def test_every_token_that_ends_a_generation_is_eos(tmp_path: Path) -> None:
    assert vocabulary(written(tmp_path / "ends.gguf", 2)).eos_ids == (2, 12)
    turn = {"tokenizer.ggml.eot_token_id": UInt32(13)}
    assert vocabulary(written(tmp_path / "turn.gguf", 2, **turn)).eos_ids == (2, 12, 13)


def test_the_padding_id_is_the_model_s_own(tmp_path: Path) -> None:
    assert vocabulary(written(tmp_path / "without.gguf", 2)).pad_id is None
    assert vocabulary(written(tmp_path / "with.gguf", 2, **{"tokenizer.ggml.padding_token_id": UInt32(0)})).pad_id == 0


@pytest.mark.parametrize("wrong", [None, "model.gguf", demo.tokenizer, lk.Vocabulary([b"a", None], eos_ids=1)])
def test_a_value_that_is_not_a_llama_is_refused(wrong: Any) -> None:
    with pytest.raises(VocabularyError, match=r"llama_cpp\.Llama"):
        vocabulary(wrong)


def test_a_model_that_cannot_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_cpp, "llama_vocab_is_eog", lambda vocab, token: False)
    with pytest.raises(VocabularyError, match="no token that ends"):
        vocabulary(llama())
