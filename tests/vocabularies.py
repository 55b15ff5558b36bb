"""Vocabularies of real tokenizers, read from the files that mistral-common ships: nothing is downloaded.

Where mistral-common is not installed, the environment variable `TEKKEN` says where its file is.
"""

from __future__ import annotations

import base64
import importlib.resources
import json
import os
from functools import cache
from pathlib import Path

from logitkit.vocabulary import Vocabulary


@cache
def tekken() -> Vocabulary:
    """Byte-level BPE of 131,072 ids, the first 1,000 of them special; every byte is a token."""
    given = os.environ.get("TEKKEN")
    file = Path(given) if given else importlib.resources.files("mistral_common").joinpath("data/tekken_240911.json")
    content = json.loads(file.read_text(encoding="utf-8"))
    special, size = (content["config"][k] for k in ("default_num_special_tokens", "default_vocab_size"))
    ordinary = [base64.b64decode(entry["token_bytes"]) for entry in content["vocab"][: size - special]]
    return Vocabulary([*[None] * special, *ordinary], eos_ids=[2])


@cache
def sentencepiece_32k() -> Vocabulary:
    """SentencePiece of 32,768 ids with byte fallback: bytes are tokens beside the pieces that spell them."""
    import sentencepiece

    file = importlib.resources.files("mistral_common").joinpath("data/mistral_instruct_tokenizer_240323.model.v3")
    model = sentencepiece.SentencePieceProcessor(model_proto=file.read_bytes())

    def text(i: int) -> bytes | None:
        piece: str = model.id_to_piece(i)
        if model.is_byte(i):
            return bytes([int(piece[3:5], 16)])
        if model.is_control(i) or model.is_unknown(i):
            return None
        return piece.replace("▁", " ").encode()

    tokens = [text(i) for i in range(model.vocab_size())]
    # Besides those without text, some that are user-defined.
    named = [i for i, token in enumerate(tokens) if token is None or token.startswith(b"[REFERENCE_DOC_")]
    special = {model.id_to_piece(i): i for i in named}
    return Vocabulary(tokens, eos_ids=[model.eos_id()], special=special)
