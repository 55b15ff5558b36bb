"""Real tokenizers of every family, shipped with a package or trained in milliseconds; none is downloaded."""

from __future__ import annotations

import base64
import importlib.resources
import io
import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, BertTokenizer, LlamaTokenizer, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import TikTokenConverter
from transformers.tokenization_mistral_common import MistralCommonBackend
from transformers.tokenization_utils_sentencepiece import SentencePieceBackend

from logitkit import Vocabulary
from logitkit_adapters.demo import model_dir
from logitkit_adapters.tokenizers import vocabulary

SENTENCES = [
    "the quick brown fox jumps over the lazy dog",
    "date: 2024-05-06, time: 12:30, price: 17.50€",
    "a naïve café in Zürich, straße 9",
    "{'name': 'Ada', 'born': 1815, 'tags': ['x', 'y']}",
    "don't panic. is it so? yes! the dog's tail",
    "日本語のテキスト と русский текст 🙂",
] * 4
SPECIAL = ["<unk>", "<s>", "</s>", "<pad>"]


def shipped(name: str) -> Path:
    """Return a tokenizer file in the package data of mistral-common."""
    return Path(str(importlib.resources.files("mistral_common").joinpath("data", name)))


def wrapped(backend: Tokenizer, **options: Any) -> Any:
    """Return the transformers tokenizer around a backend, with EOS and padding."""
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", pad_token="<pad>", **options)


@cache
def byte_level_model() -> str:
    """Train byte-level BPE in which every byte is a token; its JSON."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    options: dict[str, Any] = {"vocab_size": 400, "special_tokens": SPECIAL, "initial_alphabet": alphabet}
    backend.train_from_iterator(SENTENCES, trainers.BpeTrainer(**options, show_progress=False))
    return str(backend.to_str())


def byte_level(decoder: Any = None, normalizer: Any = None, *, add_prefix_space: bool = False) -> Tokenizer:
    """Return byte-level BPE as GPT-2 has it; always the same pieces."""
    backend = Tokenizer.from_str(byte_level_model())
    backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    backend.decoder = decoders.ByteLevel() if decoder is None else decoder
    return backend


def byte_level_split() -> Tokenizer:
    """Return byte-level BPE as Qwen has it: NFC, split by a pattern, then bytes without another split."""
    backend = byte_level(decoders.Sequence([decoders.ByteLevel()]), normalizers.NFC())
    pattern = Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+")
    split = pre_tokenizers.Split(pattern, behavior="isolated")
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, as_bytes])
    return backend


@cache
def converted_tekken() -> Tokenizer:
    """Convert the first 3,000 ranks of Tekken with transformers' converter."""
    ranks = json.loads(shipped("tekken_240911.json").read_text(encoding="utf-8"))["vocab"][:3000]
    ranked = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in ranks}

    converter: Any = TikTokenConverter()
    converter.load_tiktoken_bpe = lambda _: ranked
    backend: Tokenizer = converter.converted()
    return backend


@cache
def llama() -> Any:
    """Load Mistral's first SentencePiece model as transformers does: BPE with byte fallback."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "tokenizer.model").write_bytes(shipped("tokenizer.model.v1").read_bytes())
        return LlamaTokenizer.from_pretrained(folder)


def llama_with(decoder: Any, normalizer: Any, pre_tokenizer: Any) -> Tokenizer:
    """Return the backend of `llama` with other components."""
    backend = Tokenizer.from_str(llama().backend_tokenizer.to_str())
    backend.decoder, backend.normalizer, backend.pre_tokenizer = decoder, normalizer, pre_tokenizer
    return backend


def llama_legacy() -> Tokenizer:
    """The form of Llama 2's own file: spaces are replaced by the normalizer."""
    spaces = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    fallback = [
        decoders.Replace("▁", " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
    backend = llama_with(decoders.Sequence(fallback), spaces, None)
    backend.pre_tokenizer = None
    return backend


def gemma() -> Tokenizer:
    """The form of Gemma's file: no space in front, and runs of spaces are added tokens."""
    fallback = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    split = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    backend = llama_with(fallback, normalizers.Replace(" ", "▁"), split)
    backend.add_tokens([AddedToken("▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁", normalized=False), AddedToken("\n\n\n", normalized=False)])
    return backend


def unigram(prepend_scheme: str = "always", *, byte_fallback: bool = False) -> Tokenizer:
    """Train a Unigram model over `▁`, with bytes or an unknown token for what it cannot spell."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend_scheme)
    options: dict[str, Any] = {"vocab_size": 250, "special_tokens": SPECIAL, "unk_token": "<unk>"}
    trainer = trainers.UnigramTrainer(**options, show_progress=False)
    backend.train_from_iterator(SENTENCES, trainer)
    backend.decoder = decoders.Metaspace(prepend_scheme=prepend_scheme)
    if byte_fallback:
        state = json.loads(backend.to_str())
        pieces = state["model"]["vocab"]
        backend.model = models.Unigram(
            [(piece, score) for piece, score in pieces] + [(f"<0x{b:02X}>", -20.0) for b in range(256)],
            unk_id=0,
            byte_fallback=True,
        )
        backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return backend


def bert(*, cleanup: bool = True) -> Any:
    """Return BERT's tokenizer over every letter, every continued letter, and the words of the sentences."""
    words = sorted({*"".join(SENTENCES).split(), *" ".join(SENTENCES).lower().split()})
    letters = sorted({*"".join(words)})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters)]
    ordered = dict.fromkeys([*pieces, *(w for w in words if w.isalnum()), "do", "not", "'s", "##n't"])
    tokenizer = BertTokenizer(vocab={piece: i for i, piece in enumerate(ordered)})
    tokenizer.backend_tokenizer.decoder = decoders.WordPiece("##", cleanup)
    return tokenizer


@cache
def sentencepiece_model(model_type: str, **options: Any) -> bytes:
    """Train a SentencePiece model, by default with byte fallback."""
    model = io.BytesIO()
    settings: dict[str, Any] = {
        "vocab_size": 400,
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "pad_id": 3,
    }
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=model,
        model_type=model_type,
        remove_extra_whitespaces=False,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        user_defined_symbols=["<call>", "▁▁▁▁"],
        **(settings | options),
    )
    return model.getvalue()


def slow(model_type: str, cls: type[Any] = SentencePieceBackend, *, legacy: bool = True, **options: Any) -> Any:
    """Load a SentencePiece model into a transformers tokenizer that runs it in Python."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tokenizer.model")
        file.write_bytes(sentencepiece_model(model_type, **options))
        names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
        return cls(vocab_file=str(file), legacy=legacy, **names)


# Tokenizers that spell every text. Each encodes without loss, but for one space that some put in front.
LOSSLESS: dict[str, Callable[[], Any]] = {
    "demo model": lambda: AutoTokenizer.from_pretrained(model_dir()),
    "byte-level BPE": lambda: wrapped(byte_level()),
    "byte-level BPE with prefix space": lambda: wrapped(byte_level(add_prefix_space=True)),
    "byte-level BPE in a sequence": lambda: wrapped(byte_level(decoders.Sequence([decoders.ByteLevel()]))),
    "byte-level BPE, bare": byte_level,
    "Tekken, converted": lambda: wrapped(converted_tekken()),
    "Llama": llama,
    "Llama, legacy": lambda: wrapped(llama_legacy()),
    "Gemma": lambda: wrapped(gemma()),
    "Unigram with byte fallback": lambda: wrapped(unigram(byte_fallback=True)),
    "SentencePiece BPE in Python": lambda: slow("bpe"),
    "SentencePiece BPE in Python, without prefix": lambda: slow("bpe", legacy=False),
    "SentencePiece Unigram in Python": lambda: slow("unigram"),
    "SentencePiece, bare": lambda: sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model("bpe")),
    "mistral-common SentencePiece in transformers": lambda: MistralCommonBackend(
        shipped("mistral_instruct_tokenizer_240323.model.v3")
    ),
    "mistral-common Tekken in transformers": lambda: MistralCommonBackend(shipped("tekken_240911.json")),
}


@cache
def known(name: str) -> tuple[Any, Vocabulary]:
    """Return a lossless tokenizer and its vocabulary."""
    tokenizer = LOSSLESS[name]()
    return tokenizer, vocabulary(tokenizer, eos_ids=2 if isinstance(tokenizer, Tokenizer) else None)


def encode(tokenizer: Any, text: str) -> list[int]:
    """Encode a text without special tokens."""
    if isinstance(tokenizer, Tokenizer):
        return list(tokenizer.encode(text, add_special_tokens=False).ids)
    if not hasattr(tokenizer, "all_special_ids"):
        return list(tokenizer.encode(text))
    return list(tokenizer.encode(text, add_special_tokens=False))
