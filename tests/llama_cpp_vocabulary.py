"""A model file for llama.cpp that holds a vocabulary alone: byte-level BPE, with a few merges."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from logitkit.vocabulary import Vocabulary

# Types of values and of tokens in the GGUF format.
UINT32, INT32, STRING, ARRAY = 4, 5, 8, 9
NORMAL, CONTROL = 1, 3

MERGED = ("ab", "a\n", "\nb", "::", "ca", "cab", "b:", ":c", "\n\n", "abc")

SPECIAL = ("<s>", "</s>")


def pieces() -> list[bytes | None]:
    """The bytes of every token: two special ones, 256 bytes, and what is merged of them."""
    return [*[None] * len(SPECIAL), *(bytes([b]) for b in range(256)), *(text.encode() for text in MERGED)]


def vocabulary() -> Vocabulary:
    """The same vocabulary as logitkit sees it."""
    return Vocabulary(pieces(), eos_ids=[1])


def write(path: Path) -> None:
    """Write the model file."""
    texts = [*SPECIAL, *("".join(map(_visible, piece)) for piece in pieces() if piece is not None)]
    merges = [f"{_spelt(text[:-1])} {_spelt(text[-1])}" for text in MERGED]
    fields: list[tuple[str, int, Any]] = [
        ("general.architecture", STRING, "llama"),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "gpt-2"),
        ("tokenizer.ggml.tokens", STRING, texts),
        ("tokenizer.ggml.token_type", INT32, [CONTROL] * len(SPECIAL) + [NORMAL] * (len(texts) - len(SPECIAL))),
        ("tokenizer.ggml.merges", STRING, merges),
        ("tokenizer.ggml.bos_token_id", UINT32, 0),
        ("tokenizer.ggml.eos_token_id", UINT32, 1),
    ]
    content = b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields))
    for name, kind, value in fields:
        content += _value(STRING, name)
        if isinstance(value, list):
            content += struct.pack("<IIQ", ARRAY, kind, len(value)) + b"".join(_value(kind, v) for v in value)
        else:
            content += struct.pack("<I", kind) + _value(kind, value)
    path.write_bytes(content)


def _value(kind: int, value: Any) -> bytes:
    if kind == STRING:
        text = value.encode()
        return bytes(struct.pack("<Q", len(text)) + text)
    return struct.pack("<I" if kind == UINT32 else "<i", value)


def _spelt(text: str) -> str:
    return "".join(map(_visible, text.encode()))


def _visible(byte: int) -> str:
    """The character that stands for a byte: itself if it is visible, else one from 256 on, in order."""
    return chr(byte) if byte in _VISIBLE else chr(256 + _OTHER.index(byte))


_VISIBLE: Sequence[int] = (*range(33, 127), *range(161, 173), *range(174, 256))
_OTHER: Sequence[int] = [b for b in range(256) if b not in _VISIBLE]
