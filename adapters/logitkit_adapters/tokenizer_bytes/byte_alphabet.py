"""The 256 printable characters with which byte-level BPE writes bytes."""

from __future__ import annotations

__all__ = ["BYTE_OF_CHARACTER"]


def _byte_of_character() -> dict[str, int]:
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = sorted({*range(256)}.difference(printable))
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


# Printable bytes of Latin-1 stand for themselves, the other 68 for the characters from U+0100 on.
BYTE_OF_CHARACTER: dict[str, int] = _byte_of_character()
