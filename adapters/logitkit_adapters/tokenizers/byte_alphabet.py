"""The 256 printable characters that represent bytes in byte-level BPE."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

__all__ = ["bytes_of_pieces"]


# Printable Latin-1 bytes represent themselves; the characters from U+0100 on represent the other 68.
_PRINTABLE = [b for b in range(256) if chr(b).isprintable() and chr(b) != " "]
_OTHERS = sorted({*range(256)}.difference(_PRINTABLE))
_BYTE_OF = {chr(b): b for b in _PRINTABLE} | {chr(256 + i): b for i, b in enumerate(_OTHERS)}
_TABLE = str.maketrans(_BYTE_OF)


def bytes_of_pieces(pieces: Sequence[str]) -> list[bytes]:
    r"""Return the bytes that byte-level pieces represent.

    A piece with a character outside the alphabet represents its own UTF-8, as in the decoder.

    Args:
        pieces: Pieces from the tokenizer's vocabulary.

    Example:
        >>> bytes_of_pieces(["Ġa", "Ã", "a b"])
        [b' a', b'\xc3', b'a b']
    """
    text = "".join(pieces)
    if _BYTE_OF.keys() >= {*text}:
        # All at once: each character is one byte, so pieces are as long in bytes as in characters.
        data = text.translate(_TABLE).encode("latin-1")
        return [data[begin:end] for begin, end in pairwise([0, *accumulate(map(len, pieces))])]
    if len(pieces) == 1:
        return [text.encode()]
    return [token for piece in pieces for token in bytes_of_pieces([piece])]
