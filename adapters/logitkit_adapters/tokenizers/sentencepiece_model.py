"""Token bytes of a SentencePiece model, on its own or inside another tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logitkit_adapters.tokenizers.reading import Reading, is_special, refusal

__all__ = ["read_sentencepiece", "read_slow"]

_SPACE = "▁"


def read_sentencepiece(model: Any, name: str = "SentencePieceProcessor") -> Reading:
    """Read a `sentencepiece.SentencePieceProcessor`.

    Args:
        model: The loaded processor.
        name: The tokenizer's name, for errors.

    Raises:
        VocabularyError: A byte piece has an unexpected name.
    """
    tokens = [_bytes_of(model, i, name) for i in range(model.get_piece_size())]
    return Reading(
        name=name,
        tokens=tokens,
        encode=model.encode,
        normalise=_normaliser(model),
        unknown_id=model.unk_id(),
        eos_id=_id_or_none(model.eos_id()),
        pad_id=_id_or_none(model.pad_id()),
        special={
            piece: i
            for i, token in enumerate(tokens)
            # User-defined symbols have no score.
            if (piece := model.id_to_piece(i))
            and is_special(piece, token)
            and (token is None or model.get_score(i) == 0)
        },
    )


def read_slow(tokenizer: Any) -> Reading:
    """Read a transformers tokenizer that runs a SentencePiece model in Python.

    Ids are looked up by piece, because some of these tokenizers shift or reorder the ids of their model.

    Args:
        tokenizer: The transformers tokenizer, with `sp_model`.

    Raises:
        VocabularyError: A piece is neither in the model nor an added token.
    """
    model, name = tokenizer.sp_model, type(tokenizer).__name__
    added = tokenizer.added_tokens_decoder
    special_ids = {*tokenizer.all_special_ids, *(i for i, token in added.items() if token.special)}
    tokens: list[bytes | None] = [None] * len(tokenizer)
    special: dict[str, int] = {}
    for piece, i in tokenizer.get_vocab().items():
        tokens.extend([None] * (i + 1 - len(tokens)))
        if i in special_ids:
            special[piece] = i
            continue
        inner = model.piece_to_id(piece)
        if model.id_to_piece(inner) == piece:
            tokens[i] = _bytes_of(model, inner, name)
        elif i in added:
            tokens[i] = added[i].content.encode()
        else:
            raise refusal(name, f"its id {i} is {piece!r}, which its SentencePiece model does not have")
        if (tokens[i] is None or i in added) and is_special(piece, tokens[i]):
            special[piece] = i

    return Reading(
        name=name,
        tokens=tokens,
        encode=lambda text: tokenizer.encode(text, add_special_tokens=False),
        normalise=_normaliser(model),
        unknown_id=tokenizer.unk_token_id,
        eos_id=tokenizer.eos_token_id,
        pad_id=tokenizer.pad_token_id,
        special=special,
    )


def _bytes_of(model: Any, i: int, name: str) -> bytes | None:
    piece: str = model.id_to_piece(i)
    if model.is_control(i) or model.is_unknown(i) or model.is_unused(i):
        return None
    if not model.is_byte(i):
        return piece.replace(_SPACE, " ").encode() or None
    try:
        return bytes([int(piece.removeprefix("<0x").removesuffix(">"), 16)])
    except ValueError as error:
        raise refusal(
            name, f"its id {i} is a byte piece named {piece!r}, where <0x00> to <0xFF> are expected"
        ) from error


def _normaliser(model: Any) -> Callable[[str], str]:
    return lambda text: model.normalize(text).replace(_SPACE, " ")


def _id_or_none(i: int) -> int | None:
    return i if i >= 0 else None
