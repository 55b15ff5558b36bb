"""Token bytes of a tokenizer of the `tokenizers` library, the backend of fast transformers tokenizers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from logitkit_adapters.tokenizer_bytes.decoder_chain import DecoderChain
from logitkit_adapters.tokenizer_bytes.reading import Reading, refusal
from logitkit_adapters.tokenizer_bytes.verification import verify_decoder

__all__ = ["read_fast", "read_tokenizers"]


def read_fast(tokenizer: Any) -> Reading:
    """Read a transformers tokenizer that has a `tokenizers` backend.

    Args:
        tokenizer: The transformers tokenizer, with `backend_tokenizer`.

    Raises:
        VocabularyError: Its bytes cannot be read with certainty.
    """

    def encode(text: str) -> Sequence[int]:
        ids: Sequence[int] = tokenizer.encode(text, add_special_tokens=False)
        return ids

    return _read(
        type(tokenizer).__name__,
        tokenizer.backend_tokenizer,
        tokenizer.added_tokens_decoder,
        tokenizer.all_special_ids,
        encode,
        eos_id=tokenizer.eos_token_id,
        pad_id=tokenizer.pad_token_id,
    )


def read_tokenizers(backend: Any) -> Reading:
    """Read a bare `tokenizers.Tokenizer`, which knows no EOS and no padding id of its own.

    Args:
        backend: The `tokenizers.Tokenizer`.

    Raises:
        VocabularyError: Its bytes cannot be read with certainty.
    """

    def encode(text: str) -> Sequence[int]:
        ids: Sequence[int] = backend.encode(text, add_special_tokens=False).ids
        return ids

    added = backend.get_added_tokens_decoder()
    return _read("tokenizers.Tokenizer", backend, added, (), encode, eos_id=None, pad_id=None)


def _read(
    name: str,
    backend: Any,
    added: Mapping[int, Any],
    special_ids: Sequence[int],
    encode: Callable[[str], Sequence[int]],
    *,
    eos_id: int | None,
    pad_id: int | None,
) -> Reading:
    chain = _decoder_chain(backend, name)
    pieces: dict[int, str] = {i: piece for piece, i in backend.get_vocab(with_added_tokens=False).items()}
    unknown_id = _unknown_id(backend.model)
    tokens: list[bytes | None] = [None] * (max([*pieces, *added], default=-1) + 1)
    without_text = {*special_ids, *(i for i, token in added.items() if token.special), unknown_id}
    literal = {}
    for i, token in added.items():
        # Added tokens are matched in raw text. A byte-level decoder would still read their characters as
        # bytes, and make an added "é" a broken byte; other decoders apply as to every piece ("▁▁" of Gemma is
        # two spaces).
        if chain.is_byte_level:
            literal[i] = token.content
            pieces.pop(i, None)
        else:
            pieces[i] = token.content
    pieces = {i: piece for i, piece in pieces.items() if i not in without_text}
    for i, piece in pieces.items():
        tokens[i] = chain.read(piece) or None
    for i, content in literal.items():
        tokens[i] = None if i in without_text else content.encode() or None
    verify_decoder(
        name, chain, backend.decoder.decode, {piece: tokens[i] or b"" for i, piece in pieces.items()}
    )

    def normalise(text: str) -> str:
        text = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
        return chain.rewrite(text) if not chain.is_word_piece else text

    # Without a fallback and an unknown token, what the vocabulary cannot spell would vanish from the
    # comparison.
    is_comparable = not chain.is_word_piece and (
        chain.is_byte_level or chain.is_byte_fallback or unknown_id is not None
    )
    return Reading(
        name=name,
        tokens=tokens,
        encode=encode if is_comparable else None,
        normalise=normalise,
        unknown_id=unknown_id,
        is_layout_kept=chain.is_byte_level,
        eos_id=eos_id,
        pad_id=pad_id,
    )


def _decoder_chain(backend: Any, name: str) -> DecoderChain:
    if backend.decoder is None:
        raise refusal(name, "its backend has no decoder")
    if suffix := getattr(backend.model, "end_of_word_suffix", None):
        raise refusal(
            name,
            f"its BPE model ends words with {suffix!r}, a space that its decoder drops at the end of a text",
        )
    try:
        # Decoders pickle as JSON; the whole tokenizer, with its merges, would take far longer to parse.
        state = json.loads(backend.decoder.__getstate__())
    except Exception as error:  # the library raises bare Exception for a decoder written in Python
        raise refusal(
            name, f"its decoder {type(backend.decoder).__name__} cannot be serialised ({error})"
        ) from error
    return DecoderChain.parse(state, name)


def _unknown_id(model: Any) -> int | None:
    if type(model).__name__ == "Unigram":
        unknown: int | None = json.loads(model.__getstate__())["unk_id"]
        return unknown
    piece = getattr(model, "unk_token", None)
    return None if piece is None else model.token_to_id(piece)
