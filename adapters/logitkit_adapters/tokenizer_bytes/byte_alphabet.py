"""The 256 printable characters with which byte-level BPE writes bytes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

__all__ = ["bytes_of_pieces"]


def _byte_of_character() -> dict[str, int]:
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = sorted({*range(256)}.difference(printable))
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


# Printable bytes of Latin-1 stand for themselves, the other 68 for the characters from U+0100 on.
_BYTE_OF = _byte_of_character()
_TABLE = str.maketrans(_BYTE_OF)


def bytes_of_pieces(pieces: Sequence[str]) -> list[bytes]:
    r"""Return the bytes that byte-level pieces stand for.

    A piece with a character outside the alphabet stands for its own UTF-8, as it does for the decoder.

    Args:
        pieces: Pieces as in the tokenizer's vocabulary.

    Example:
        >>> bytes_of_pieces(["Ġa", "Ã", "a b"])
        [b' a', b'\xc3', b'a b']
    """
    text = "".join(pieces)
    if _BYTE_OF.keys() >= {*text}:
        # All at once: a character is a byte, so the lengths of the pieces are those of the bytes.
        data = text.translate(_TABLE).encode("latin-1")
        return [data[begin:end] for begin, end in pairwise([0, *accumulate(map(len, pieces))])]
    if len(pieces) == 1:
        return [text.encode()]
    return [token for piece in pieces for token in bytes_of_pieces([piece])]
