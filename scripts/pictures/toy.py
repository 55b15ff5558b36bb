"""A vocabulary small enough to be drawn."""

from __future__ import annotations

import logitkit as lk

__all__ = ["VOCABULARY", "name"]

WORDS = ("0", "1", "7", "42", "99", ".", ".5", "1.", "3.1", "of", " ", "a")
VOCABULARY = lk.Vocabulary([*(word.encode() for word in WORDS), None], eos_ids=[len(WORDS)])


def name(token: int) -> str:
    """Return how a token is written in a picture."""
    return "EOS" if token == len(WORDS) else "␣" if WORDS[token] == " " else WORDS[token]
