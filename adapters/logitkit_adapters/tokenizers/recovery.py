"""Build a vocabulary from a tokenizer."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import logitkit
from logitkit.errors import VocabularyError
from logitkit_adapters.loaded_class import is_instance
from logitkit_adapters.tokenizers.byte_ranks import read_tekken, read_tiktoken
from logitkit_adapters.tokenizers.reading import Reading, refusal
from logitkit_adapters.tokenizers.sentencepiece_model import read_sentencepiece, read_slow
from logitkit_adapters.tokenizers.tokenizers_backend import read_fast, read_tokenizers
from logitkit_adapters.tokenizers.verification import verify_encoder

__all__ = ["model_vocabulary", "vocabulary"]


def vocabulary(
    tokenizer: Any, *, eos_ids: int | Iterable[int] | None = None, size: int | None = None
) -> logitkit.Vocabulary:
    r"""Read the bytes that each token id adds to the text from a tokenizer.

    The bytes come from the tokenizer's own pieces, not from decoded text, which loses parts of characters. They are checked
    against the tokenizer's decoder (every piece) and encoder (sample texts). If anything is uncertain, the tokenizer is
    refused. Supported:

    - transformers tokenizers with a `tokenizers` backend: byte-level BPE (GPT-2, Llama 3, Qwen, converted
      Tekken), BPE and Unigram with `▁` for spaces, with or without byte fallback (Llama 2, Gemma, T5),
      WordPiece (BERT); and bare `tokenizers.Tokenizer`;
    - transformers tokenizers that run a SentencePiece model in Python; and bare
      `sentencepiece.SentencePieceProcessor`;
    - mistral-common's `MistralTokenizer`, `Tekkenizer` and `SentencePieceTokenizer`, and transformers'
      wrapper of them;
    - `tiktoken.Encoding`.

    The bytes of a token are those that it adds after a prompt. For example, a tokenizer with `▁` decodes the token `▁the`
    without its space at the very start of a text; after a prompt it adds `b" the"`, so that is its text here. In the WordPiece
    family, a token adds a space and its text, unless it continues a word (`##ing` adds `b"ing"`) or the decoder's `cleanup`
    drops the space (`.` adds `b"."`); so there, a constrained text begins with a space. Changes that
    `decode(clean_up_tokenization_spaces=True)` makes to a finished text are ignored.

    Special tokens, the unknown token and unused ids have no text. Other added tokens have the UTF-8 bytes of their content,
    with `▁` and the WordPiece space treated as in every piece; the surrounding spaces that `lstrip` and `rstrip` remove from an
    input are ignored. Tokens with equal bytes remain separate tokens.

    `special` contains the names of all tokens without text, and of added tokens with text that are named like special tokens,
    such as `<think>` in Qwen3, which its tokenizer does not declare special.

    The result is not cached, because tokens may be added to a tokenizer, so keep it. Reading 131,072 tokens takes about 0.2 s.

    Args:
        tokenizer: The tokenizer.
        eos_ids: Ids that end a sequence, instead of the tokenizer's; for example `generation_config.eos_token_id`, which may
            contain several.
        size: The number of logits columns (`model.config.vocab_size`), if the model pads its vocabulary.

    Returns:
        The vocabulary, with the tokenizer's padding id if it has one.

    Raises:
        VocabularyError: The bytes cannot be recovered with certainty, no EOS is known, or an id or `size` is out of range.

    Example:
        >>> from tokenizers import Tokenizer, decoders, models, pre_tokenizers
        >>> backend = Tokenizer(models.BPE({"a": 0, "Ġ": 1, "Ã": 2, "©": 3, "Ġa": 4}, [("Ġ", "a")]))
        >>> backend.pre_tokenizer, backend.decoder = (
        ...     pre_tokenizers.ByteLevel(add_prefix_space=False),
        ...     decoders.ByteLevel(),
        ... )
        >>> vocabulary(backend, eos_ids=5, size=6).tokens
        (b'a', b' ', b'\xc3', b'\xa9', b' a', None)
    """
    return model_vocabulary(tokenizer, (), None, eos_ids=eos_ids, size=size)


def model_vocabulary(
    tokenizer: Any,
    ends: Collection[int],
    columns: int | None,
    *,
    eos_ids: int | Iterable[int] | None = None,
    size: int | None = None,
) -> logitkit.Vocabulary:
    """Build the vocabulary for a model: like `vocabulary`, with every EOS of the engine and one id per logits column.

    Args:
        tokenizer: The tokenizer.
        ends: The ids at which the engine ends a sequence of this model; the tokenizer's EOS is added.
        columns: The number of logits columns. Tokens beyond them, which the model cannot generate, are left out. None: unknown.
        eos_ids: Ids that end a sequence, instead of all these.
        size: The number of logits columns, instead of `columns`.

    Raises:
        VocabularyError: The bytes cannot be recovered with certainty, no EOS is known, or an id or `size` is out of range.
    """
    reading = _read(tokenizer)
    verify_encoder(reading)
    tokens, special, pad = reading.tokens, reading.special, reading.pad_id
    if eos_ids is None:
        known = {*ends, *(() if reading.eos_id is None else (reading.eos_id,))}
        eos_ids = sorted(end for end in known if size is not None or columns is None or end < columns)
        if not eos_ids:
            raise VocabularyError(
                f"{reading.name} has no EOS id; give eos_ids=, the ids with which the model ends a sequence"
            )
    if size is None and columns is not None:
        size, tokens = columns, tokens[:columns]
        special = {name: i for name, i in special.items() if i < columns}
        pad = pad if pad is None or pad < columns else None
    return logitkit.Vocabulary(tokens, eos_ids, size=size, pad_id=pad, special=special)


def _read(tokenizer: Any) -> Reading:
    if is_instance(tokenizer, "tokenizers", "Tokenizer"):
        return read_tokenizers(tokenizer)
    if is_instance(tokenizer, "sentencepiece", "SentencePieceProcessor"):
        return read_sentencepiece(tokenizer)
    if is_instance(tokenizer, "tiktoken", "Encoding"):
        return read_tiktoken(tokenizer)
    if is_instance(tokenizer, "mistral_common.tokens.tokenizers.mistral", "MistralTokenizer"):
        return _read(tokenizer.instruct_tokenizer.tokenizer)
    if is_instance(tokenizer, "mistral_common.tokens.tokenizers.tekken", "Tekkenizer"):
        return read_tekken(tokenizer)
    if is_instance(tokenizer, "mistral_common.tokens.tokenizers.sentencepiece", "SentencePieceTokenizer"):
        # mistral-common has no public attribute for the SentencePiece model.
        return read_sentencepiece(tokenizer._model, type(tokenizer).__name__)  # noqa: SLF001
    inner = getattr(tokenizer, "tokenizer", None)
    if is_instance(inner, "mistral_common.tokens.tokenizers.mistral", "MistralTokenizer"):
        # transformers' wrapper: `generate` uses its EOS and padding ids.
        return replace(_read(inner), eos_id=tokenizer.eos_token_id, pad_id=tokenizer.pad_token_id)
    if is_instance(getattr(tokenizer, "backend_tokenizer", None), "tokenizers", "Tokenizer"):
        return read_fast(tokenizer)
    if is_instance(getattr(tokenizer, "sp_model", None), "sentencepiece", "SentencePieceProcessor"):
        return read_slow(tokenizer)
    raise _unknown(tokenizer)


def _unknown(tokenizer: Any) -> VocabularyError:
    """Return the error for what is not a tokenizer, or not one that can be read."""
    kind = type(tokenizer)
    if isinstance(tokenizer, logitkit.Vocabulary) or callable(getattr(tokenizer, "generate", None)):
        return VocabularyError(f"the tokenizer is a {kind.__name__}; pass the tokenizer of the model")
    return refusal(
        f"{kind.__module__}.{kind.__qualname__}", "it is of no known kind, such as a tokenizer written in Python"
    )
