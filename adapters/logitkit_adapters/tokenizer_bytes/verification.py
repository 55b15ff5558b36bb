"""Checks of token bytes against the tokenizer that they came from; a tokenizer that fails one is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from logitkit_adapters.tokenizer_bytes.decoder_chain import DecoderChain
from logitkit_adapters.tokenizer_bytes.reading import Reading, refusal

__all__ = ["verify_decoder", "verify_encoder"]

_PROBES = (
    "plain words only",
    "The date is 2024-05-06, and a café costs 12.50€.",
    'x = {"key": [1, -2.5e10], "b": null};',
    "Straße, русский, 日本語, 한국어 and 🙂👩‍👧",
)
_LAYOUT_PROBE = "two  spaces\n\tand a tab\r\n"

# Characters whose UTF-8 has every byte that UTF-8 can have: each single byte, continuation and lead.
_EVERY_BYTE = "".join(
    chr(c)
    for c in (
        *range(0xC0),
        *range(0xC0, 0x800, 0x40),
        *range(0x800, 0x1000, 0x800),
        *range(0x1000, 0x10000, 0x1000),
        *range(0x10000, 0x110000, 0x30000),
    )
)


def verify_decoder(
    name: str, chain: DecoderChain, decode: Callable[[list[str]], str], bytes_of: Mapping[str, bytes]
) -> None:
    """Compare the bytes of every piece with what the tokenizer's own decoder makes of the pieces.

    Args:
        name: The tokenizer, for errors.
        chain: The decoder as it was read.
        decode: The tokenizer's decoder: pieces to text.
        bytes_of: Bytes by piece.

    Raises:
        VocabularyError: They differ.
    """
    # After some first piece, where no rule for the start of a text applies.
    first = "a"
    whole = [piece for piece in bytes_of if not chain.is_byte_piece(piece)]
    joined = b"".join(bytes_of[piece] for piece in whole)
    if decode([first, *whole]) != first + joined.decode(errors="replace"):
        for piece in whole:
            decoded, mine = decode([first, piece]), bytes_of[piece]
            if decoded != first + mine.decode(errors="replace"):
                raise refusal(
                    name,
                    f"its decoder makes {decoded!r} of {[first, piece]}; the piece was read as {mine!r}",
                )
        raise refusal(name, "its decoder does not join pieces one by one")
    byte_pieces = {bytes_of[piece]: piece for piece in bytes_of if chain.is_byte_piece(piece)}
    text = "".join(c for c in _EVERY_BYTE if all(bytes([b]) in byte_pieces for b in c.encode()))
    spelled = [byte_pieces[bytes([b])] for b in text.encode()]
    if (decoded := decode([first, *spelled])) != first + text:
        raise refusal(name, f"its decoder makes {decoded!r} of the byte pieces of {text!r}")


def verify_encoder(reading: Reading) -> None:
    """Compare texts with the joined bytes of their tokens, but for a space that an encoder may put in front.

    Args:
        reading: What was read from the tokenizer.

    Raises:
        VocabularyError: They differ.
    """
    if reading.encode is None:
        return
    known = {token for token in reading.tokens if token is not None}
    for probe in (*_PROBES, _LAYOUT_PROBE) if reading.is_layout_kept else _PROBES:
        text = probe if reading.unknown_id is not None else _spellable(probe, reading, known)
        ids = list(reading.encode(text))
        if reading.unknown_id in ids:  # says nothing about the bytes of the other tokens
            continue
        without_text = [i for i in ids if not 0 <= i < len(reading.tokens) or reading.tokens[i] is None]
        if without_text:
            raise refusal(
                reading.name, f"it encodes {text!r} with the ids {without_text}, which have no text"
            )
        joined = b"".join(reading.tokens[i] or b"" for i in ids)
        # The text itself, where what looks like normalisation is only a way of writing bytes.
        expected = {form.encode().removeprefix(b" ") for form in (text, reading.normalise(text))}
        if joined.removeprefix(b" ") not in expected:
            raise refusal(reading.name, f"it encodes {text!r} with tokens whose bytes join to {joined!r}")


def _spellable(text: str, reading: Reading, known: set[bytes]) -> str:
    """Drop the characters that an encoder without an unknown token would drop in silence."""
    return "".join(
        c
        for c in text
        if all(bytes([b]) in known for form in (c, reading.normalise(c)) for b in form.encode())
    )
