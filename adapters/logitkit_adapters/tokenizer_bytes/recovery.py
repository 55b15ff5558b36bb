"""From a tokenizer to a vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import logitkit
from logitkit.errors import VocabularyError
from logitkit_adapters.tokenizer_bytes.byte_ranks import read_tekken, read_tiktoken
from logitkit_adapters.tokenizer_bytes.loaded_class import is_instance
from logitkit_adapters.tokenizer_bytes.reading import Reading, refusal
from logitkit_adapters.tokenizer_bytes.sentencepiece_model import read_sentencepiece, read_slow
from logitkit_adapters.tokenizer_bytes.tokenizers_backend import read_fast, read_tokenizers
from logitkit_adapters.tokenizer_bytes.verification import verify_encoder

__all__ = ["vocabulary"]


def vocabulary(
    tokenizer: Any, *, eos_ids: int | Iterable[int] | None = None, size: int | None = None
) -> logitkit.Vocabulary:
    r"""Read the bytes that each token id adds to a text out of a tokenizer.

    The bytes come from the tokenizer's own pieces, not from decoded text, in which fragments of characters
    are lost. They are checked against the tokenizer's decoder (every piece) and its encoder (sample texts);
    where anything is uncertain the tokenizer is refused. Supported:

    - transformers tokenizers with a `tokenizers` backend: byte-level BPE (GPT-2, Llama 3, Qwen, converted
      Tekken), BPE and Unigram with `▁` for spaces, with or without byte fallback (Llama 2, Gemma, T5),
      WordPiece (BERT); and bare `tokenizers.Tokenizer`;
    - transformers tokenizers that run a SentencePiece model in Python; and bare
      `sentencepiece.SentencePieceProcessor`;
    - mistral-common's `MistralTokenizer`, `Tekkenizer` and `SentencePieceTokenizer`, and transformers'
      wrapper of them;
    - `tiktoken.Encoding`.

    What a token adds is what it adds after a prompt. A tokenizer with `▁` decodes the token `▁the` at the
    very start of a text without its space; after a prompt it adds `b" the"`, and so it is here. In the
    WordPiece family a token adds a space and its text, unless it continues a word (`##ing` adds `b"ing"`) or
    the decoder's own `cleanup` drops the space (`.` adds `b"."`); so a constrained text begins with a space
    there. What `decode(clean_up_tokenization_spaces=True)` does to a finished text is not part of it.

    Special tokens, the unknown token and unused ids have no text. Other added tokens have the UTF-8 bytes of
    their content, in which `▁` and the WordPiece space are as in every piece; the spaces that `lstrip` and
    `rstrip` swallow around one in an input are not part of it. Tokens with equal bytes stay separate tokens.

    Nothing is cached, since tokens may be added to a tokenizer: keep the result. 131,072 tokens take about
    0.2 s.

    Args:
        tokenizer: The tokenizer.
        eos_ids: Ids that end a sequence, in place of the tokenizer's one; for example
            `generation_config.eos_token_id`, which may list several.
        size: Number of logits columns (`model.config.vocab_size`), when the model pads its vocabulary.

    Returns:
        The vocabulary, with the tokenizer's padding id if it has one.

    Raises:
        VocabularyError: The bytes cannot be recovered with certainty, no EOS is known, or an id or `size` is
            out of range.

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
    reading = _read(tokenizer)
    verify_encoder(reading)
    if eos_ids is None:
        if reading.eos_id is None:
            raise VocabularyError(
                f"{reading.name} has no EOS id; give eos_ids=, the ids with which the model ends a sequence"
            )
        eos_ids = reading.eos_id
    return logitkit.Vocabulary(reading.tokens, eos_ids, size=size, pad_id=reading.pad_id)


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
        # mistral-common has no public name for its model.
        return read_sentencepiece(tokenizer._model, type(tokenizer).__name__)  # noqa: SLF001
    inner = getattr(tokenizer, "tokenizer", None)
    if is_instance(inner, "mistral_common.tokens.tokenizers.mistral", "MistralTokenizer"):
        # transformers' wrapper: what it calls EOS and padding is what `generate` will use.
        return replace(_read(inner), eos_id=tokenizer.eos_token_id, pad_id=tokenizer.pad_token_id)
    if is_instance(getattr(tokenizer, "backend_tokenizer", None), "tokenizers", "Tokenizer"):
        return read_fast(tokenizer)
    if is_instance(getattr(tokenizer, "sp_model", None), "sentencepiece", "SentencePieceProcessor"):
        return read_slow(tokenizer)
    kind = type(tokenizer)
    raise refusal(
        f"{kind.__module__}.{kind.__qualname__}",
        "it is of no known kind, such as a tokenizer written in Python",
    )
