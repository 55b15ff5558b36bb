"""Verification of token bytes against the tokenizer itself; a tokenizer that fails is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from logitkit_adapters.tokenizers.decoder_chain import DecoderChain
from logitkit_adapters.tokenizers.reading import Reading, refusal

__all__ = ["verify_decoder", "verify_encoder"]

_PROBES = (
    "plain words only",
    "The date is 2024-05-06, and a café costs 12.50€.",
    'x = {"key": [1, -2.5e10], "b": null};',
    "Straße, русский, 日本語, 한국어 and 🙂👩‍👧",
)
_LAYOUT_PROBE = "two  spaces\n\tand a tab\r\n"

# Characters whose UTF-8 contains every byte that UTF-8 can contain: single, continuation and lead bytes.
_SHORT = [*range(0xC0), *range(0xC0, 0x800, 0x40)]
_LONG = [*range(0x800, 0x1000, 0x800), *range(0x1000, 0x10000, 0x1000), *range(0x10000, 0x110000, 0x30000)]
_EVERY_BYTE = "".join(map(chr, [*_SHORT, *_LONG]))


def verify_decoder(
    name: str, chain: DecoderChain, decode: Callable[[list[str]], str], pieces: Sequence[str], read: Sequence[bytes]
) -> None:
    """Compare the bytes of every piece with the output of the tokenizer's own decoder.

    Args:
        name: The tokenizer's name, for errors.
        chain: The decoder as parsed.
        decode: The tokenizer's decoder: pieces to text.
        pieces: All pieces.
        read: The bytes of each piece.

    Raises:
        VocabularyError: The bytes differ from the decoder's output.
    """
    # After a first piece, where no rule for the start of a text applies.
    first = "a"
    is_byte = [chain.is_byte_fallback and chain.is_byte_piece(piece) for piece in pieces]
    whole = [piece for piece, byte in zip(pieces, is_byte, strict=True) if not byte]
    joined = b"".join(token for token, byte in zip(read, is_byte, strict=True) if not byte)
    if decode([first, *whole]) != first + joined.decode(errors="replace"):
        for piece, token in zip(pieces, read, strict=True):
            decoded = decode([first, piece])
            if decoded != first + token.decode(errors="replace"):
                found = f"its decoder turns {[first, piece]} into {decoded!r}; the piece was read as {token!r}"
                raise refusal(name, found)
        raise refusal(name, "its decoder does not join pieces one by one")
    byte_pieces = {token: piece for piece, token, byte in zip(pieces, read, is_byte, strict=True) if byte}
    text = "".join(c for c in _EVERY_BYTE if all(bytes([b]) in byte_pieces for b in c.encode()))
    spelled = [byte_pieces[bytes([b])] for b in text.encode()]
    if (decoded := decode([first, *spelled])) != first + text:
        raise refusal(name, f"its decoder turns the byte pieces of {text!r} into {decoded!r}")


def verify_encoder(reading: Reading) -> None:
    """Compare texts with the joined bytes of their tokens, apart from a space that an encoder may prepend.

    Args:
        reading: The result of reading the tokenizer.

    Raises:
        VocabularyError: The bytes differ from the text.
    """
    if reading.encode is None:
        return
    known = {token for token in reading.tokens if token is not None and len(token) == 1}
    for probe in (*_PROBES, _LAYOUT_PROBE) if reading.is_layout_kept else _PROBES:
        text = probe if reading.unknown_id is not None else _spellable(probe, reading, known)
        ids = list(reading.encode(text))
        if reading.unknown_id in ids:  # tells nothing about the bytes of the other tokens
            continue
        without_text = [i for i in ids if not 0 <= i < len(reading.tokens) or reading.tokens[i] is None]
        if without_text:
            raise refusal(reading.name, f"it encodes {text!r} with the ids {without_text}, which have no text")
        joined = b"".join(reading.tokens[i] or b"" for i in ids)
        # Compare with the unchanged text too, for normalisers that only encode bytes differently.
        expected = {form.encode().removeprefix(b" ") for form in (text, reading.normalise(text))}
        if joined.removeprefix(b" ") not in expected:
            raise refusal(reading.name, f"it encodes {text!r} with tokens whose bytes join to {joined!r}")


def _spellable(text: str, reading: Reading, known: set[bytes]) -> str:
    """Remove the characters that an encoder without an unknown token would silently drop."""
    return "".join(
        c for c in text if all(bytes([b]) in known for form in (c, reading.normalise(c)) for b in form.encode())
    )
