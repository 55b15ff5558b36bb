"""Token bytes of tokenizers that store bytes: tiktoken encodings and Tekken."""

from __future__ import annotations

from typing import Any

from logitkit_adapters.tokenizers.reading import Reading

__all__ = ["read_tekken", "read_tiktoken"]


def read_tiktoken(encoding: Any) -> Reading:
    """Read a `tiktoken.Encoding`; unused ids have no text.

    Args:
        encoding: The encoding.
    """
    names = encoding.special_tokens_set
    special = {name: encoding.encode_single_token(name) for name in names}
    hidden = set(special.values())
    return Reading(
        name=f"tiktoken.Encoding {encoding.name!r}",
        tokens=[None if i in hidden else _bytes_or_none(encoding, i) for i in range(encoding.n_vocab)],
        special=special,
        encode=encoding.encode_ordinary,
        is_layout_kept=True,
        eos_id=encoding.eot_token if "<|endoftext|>" in names else None,
    )


def read_tekken(tokenizer: Any) -> Reading:
    """Read a mistral-common `Tekkenizer`; special ids have no text.

    Args:
        tokenizer: The tokenizer.
    """
    special = tokenizer.special_ids
    return Reading(
        name=type(tokenizer).__name__,
        tokens=[None if i in special else tokenizer.id_to_byte_piece(i) for i in range(tokenizer.n_words)],
        encode=lambda text: tokenizer.encode(text, bos=False, eos=False),
        is_layout_kept=True,
        eos_id=tokenizer.eos_id,
        pad_id=tokenizer.pad_id,
        special={tokenizer.id_to_piece(i): i for i in special},
    )


def _bytes_or_none(encoding: Any, i: int) -> bytes | None:
    try:
        return bytes(encoding.decode_single_token_bytes(i))
    except KeyError:
        return None
