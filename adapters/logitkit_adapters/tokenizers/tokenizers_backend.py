"""Token bytes of a `tokenizers` tokenizer, the backend of fast transformers tokenizers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from logitkit.parameters.scalars import as_integer
from logitkit_adapters.tokenizers.decoder_chain import DecoderChain
from logitkit_adapters.tokenizers.reading import Reading, is_special, refusal
from logitkit_adapters.tokenizers.verification import verify_decoder

__all__ = ["read_fast", "read_tokenizers"]


def read_fast(tokenizer: Any) -> Reading:
    """Read a transformers tokenizer that has a `tokenizers` backend.

    Args:
        tokenizer: The transformers tokenizer, with `backend_tokenizer`.

    Raises:
        VocabularyError: Its bytes cannot be read with certainty.
    """
    reading = _read(
        type(tokenizer).__name__,
        tokenizer.backend_tokenizer,
        tokenizer.added_tokens_decoder,
        tokenizer.all_special_ids,
        lambda text: tokenizer.encode(text, add_special_tokens=False),
    )
    return replace(reading, eos_id=tokenizer.eos_token_id, pad_id=tokenizer.pad_token_id)


def read_tokenizers(backend: Any) -> Reading:
    """Read a bare `tokenizers.Tokenizer`, which defines neither EOS nor padding.

    Args:
        backend: The `tokenizers.Tokenizer`.

    Raises:
        VocabularyError: Its bytes cannot be read with certainty.
    """
    plain = backend
    if backend.truncation is not None or backend.padding is not None:
        plain = deepcopy(backend)
        plain.no_truncation()
        plain.no_padding()

    return _read(
        "tokenizers.Tokenizer",
        backend,
        backend.get_added_tokens_decoder(),
        (),
        lambda text: plain.encode(text, add_special_tokens=False).ids,
    )


def _read(
    name: str,
    backend: Any,
    added: Mapping[int, Any],
    special_ids: Sequence[int],
    encode: Callable[[str], Sequence[int]],
) -> Reading:
    chain = _decoder_chain(backend, name)
    unknown_id = _unknown_id(backend.model)
    without_text = {*special_ids, *(i for i, token in added.items() if token.special), unknown_id}
    pieces: dict[int, str] = {i: piece for piece, i in backend.get_vocab(with_added_tokens=False).items()}
    tokens: list[bytes | None] = [None] * (max([*pieces, *added], default=-1) + 1)
    for i, token in added.items():
        if i in without_text or not chain.is_byte_level:
            # As in every piece: "▁▁" in Gemma's file means two spaces.
            pieces[i] = token.content
        else:
            # These are matched in the text itself, although the decoder also reads their characters as bytes.
            tokens[i] = token.content.encode()
            if i in pieces and chain.read([pieces.pop(i)]) != [tokens[i]]:
                raise refusal(
                    name, f"its added token {token.content!r} has id {i}, which belongs to a piece with other bytes"
                )
    special = {piece: i for i, piece in pieces.items() if i in without_text}
    pieces = {i: piece for i, piece in pieces.items() if i not in without_text}
    names = list(pieces.values())
    read = chain.read(names)
    verify_decoder(name, chain, backend.decoder.decode, names, read)
    for i, token_bytes in zip(pieces, read, strict=True):
        tokens[i] = token_bytes or None
    for i, token in added.items():
        if is_special(token.content, tokens[i]):
            special[token.content] = i

    def normalise(text: str) -> str:
        text = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
        return chain.rewrite(text) if not chain.is_word_piece else text

    # Without a fallback and an unknown token, text that the vocabulary cannot spell would be missing from the comparison.
    is_comparable = not chain.is_word_piece and (
        chain.is_byte_level or chain.is_byte_fallback or unknown_id is not None
    )
    return Reading(
        name=name,
        tokens=tokens,
        special=special,
        encode=encode if is_comparable else None,
        normalise=normalise,
        unknown_id=unknown_id,
        is_layout_kept=chain.is_byte_level,
    )


def _decoder_chain(backend: Any, name: str) -> DecoderChain:
    if backend.decoder is None:
        raise refusal(name, "its backend has no decoder")
    if suffix := getattr(backend.model, "end_of_word_suffix", None):
        raise refusal(
            name, f"its BPE model ends words with {suffix!r}, a space that its decoder drops at the end of a text"
        )
    try:
        # Decoders can be pickled as JSON; parsing the whole tokenizer with its merges would take far longer.
        state = json.loads(backend.decoder.__getstate__())
    except Exception as error:  # the library raises bare Exception for a decoder written in Python
        raise refusal(name, f"its decoder {type(backend.decoder).__name__} cannot be serialised ({error})") from error
    return DecoderChain.parse(state, name)


def _unknown_id(model: Any) -> int | None:
    if type(model).__name__ == "Unigram":
        return as_integer(json.loads(model.__getstate__())["unk_id"])
    piece = getattr(model, "unk_token", None)
    return None if piece is None else model.token_to_id(piece)
