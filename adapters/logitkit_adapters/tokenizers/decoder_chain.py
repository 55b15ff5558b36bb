"""The decoder of a `tokenizers` backend, as a function from one piece to the bytes that it adds to the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from operator import methodcaller
from typing import Any

from logitkit_adapters.tokenizers.reading import refusal

__all__ = ["DecoderChain", "bytes_of_pieces"]

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


_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# Applied in this order to each piece with its space, as in the WordPiece decoder with `cleanup`.
_WORD_PIECE_CLEANUP = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


@dataclass(frozen=True)
class DecoderChain:
    r"""The steps of a decoder that apply to one piece at a time, for every piece except the first.

    Some decoders treat the first piece differently (they drop a leading space). That is left out, because a generated token
    always follows a prompt.

    Args:
        text_steps: Replacements in a piece, in order.
        is_byte_level: Whether the characters of a piece represent bytes.
        is_byte_fallback: Whether pieces such as `<0x0A>` represent one byte.
        is_word_piece: Whether a piece includes the space before its word.

    Example:
        >>> llama = [
        ...     {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        ...     {"type": "ByteFallback"},
        ...     {"type": "Fuse"},
        ... ]
        >>> chain = DecoderChain.parse({"type": "Sequence", "decoders": llama}, "a tokenizer")
        >>> chain.read(["▁dé", "<0xC3>"])
        [b' d\xc3\xa9', b'\xc3']
    """

    text_steps: tuple[Callable[[str], str], ...]
    is_byte_level: bool
    is_byte_fallback: bool
    is_word_piece: bool

    @classmethod
    def parse(cls, decoder: Mapping[str, Any], name: str) -> DecoderChain:
        """Parse a serialised decoder.

        Args:
            decoder: The decoder as JSON data, with its `type`.
            name: The tokenizer's name, for errors.

        Raises:
            VocabularyError: A step is unknown, or acts across pieces, so that pieces have no bytes of their own.
        """
        text_steps: list[Callable[[str], str]] = []
        kinds: list[str] = []
        for step in _flat(decoder):
            kind = step["type"]
            # After this step there is a single string, or bytes have been decoded; a later replacement would act across pieces.
            is_joined = "Fuse" in kinds or "ByteLevel" in kinds
            has_bytes = is_joined or "ByteFallback" in kinds
            if kind == "Fuse":
                pass
            elif kind == "Strip" and is_joined and step["stop"] == 0:
                pass  # drops leading spaces of the whole text
            elif kind in ("ByteLevel", "ByteFallback") and not has_bytes:
                pass
            elif kind == "Replace" and not has_bytes and step["pattern"].get("String"):
                text_steps.append(methodcaller("replace", step["pattern"]["String"], step["content"]))
            elif kind == "Metaspace" and not has_bytes:
                text_steps.append(methodcaller("replace", step["replacement"], " "))
            elif kind == "WordPiece" and not has_bytes:
                text_steps.append(partial(_word_piece, step["prefix"], step["cleanup"]))
            else:
                before = f" after {' and '.join(kinds)}" if kinds else ""
                raise refusal(name, f"its decoder has the step {step}{before}")
            kinds.append(kind)
        return cls(tuple(text_steps), "ByteLevel" in kinds, "ByteFallback" in kinds, "WordPiece" in kinds)

    def rewrite(self, piece: str) -> str:
        """Apply the replacement steps."""
        for step in self.text_steps:
            piece = step(piece)
        return piece

    def read(self, pieces: Sequence[str]) -> list[bytes]:
        """Return the bytes that each piece adds after other text, possibly none."""
        if self.text_steps:
            pieces = [self.rewrite(piece) for piece in pieces]
        if self.is_byte_level:
            return bytes_of_pieces(pieces)
        if self.is_byte_fallback:
            return [_byte_or_text(piece) for piece in pieces]
        return [piece.encode() for piece in pieces]

    def is_byte_piece(self, piece: str) -> bool:
        """Whether a piece is named like a single byte, such as `<0x0A>`."""
        return self.is_byte_fallback and _BYTE_PIECE.fullmatch(self.rewrite(piece)) is not None


def _flat(decoder: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if decoder["type"] == "Sequence":
        for step in decoder["decoders"]:
            yield from _flat(step)
    else:
        yield decoder


def _byte_or_text(piece: str) -> bytes:
    byte = _BYTE_PIECE.fullmatch(piece)
    return piece.encode() if byte is None else bytes([int(byte[1], 16)])


def _word_piece(prefix: str, cleanup: bool, piece: str) -> str:
    piece = piece.removeprefix(prefix) if piece.startswith(prefix) else " " + piece
    if cleanup:
        for old, new in _WORD_PIECE_CLEANUP:
            piece = piece.replace(old, new)
    return piece
