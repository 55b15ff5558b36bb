"""A small vocabulary with special tokens, which tests of markers, stops and bans share, and a plain search with them.

The search tries every way to write a text, the token or the name, in every place of the tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import logitkit as lk

# In a text as a row of numbers, a byte is its value, and these and greater numbers are tokens.
FIRST_TOKEN = 256
THINK, EOS, OTHER = 8, 9, 10
NAME = "<t>"
PIECES: list[bytes | None] = [b"a", b"b", b"<", b"t", b">", b"<t", b"t>", b"a<", None, None, None]
TOKENS = lk.Vocabulary(PIECES, eos_ids=[EOS], special={NAME: THINK, "<e>": EOS, "<o>": OTHER})
# Each name is the text of its token too, as of Qwen3's `</think>`.
WITH_TEXT = lk.Vocabulary([*PIECES[:8], NAME.encode(), None, None], eos_ids=[EOS], special={NAME: THINK})

NAMES = {"<t>": THINK, "<e>": EOS, "<o>": OTHER}
IDS = range(len(PIECES))


def ways(text: str) -> list[tuple[int, ...]]:
    """Return all ways to write a text as bytes and special tokens."""
    found: list[tuple[int, ...]] = [()]
    for piece in re.findall("<t>|<e>|<o>|.", text):
        spelled = [tuple(piece.encode())]
        if piece in NAMES:
            spelled.append((FIRST_TOKEN + NAMES[piece],))
        found = [way + more for way in found for more in spelled]
    return found


def contains(ids: Sequence[int], text: str) -> bool:
    """Whether tokens write a text somewhere."""
    named = {token for name, token in NAMES.items() if name in text}
    symbols: list[int] = []
    for token in ids:
        symbols += PIECES[token] or ([FIRST_TOKEN + token] if token in named else [])
    return any(
        tuple(symbols[i : i + len(way)]) == way for way in ways(text) for i in range(len(symbols) - len(way) + 1)
    )
