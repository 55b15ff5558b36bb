"""Symbols that stand for more than a character: calls, the ends of calls, words and special tokens, after all code points."""

from __future__ import annotations

from logitkit.compiler.characters.positions import CALLS

__all__ = ["LETTERS", "MARKS", "WORDS"]

# The end of a call: this plus a mark.
MARKS = CALLS + 2**20

# A whole word: this plus its number.
WORDS = CALLS + 2**21

# A special token: this plus its number.
LETTERS = CALLS + 2**22
