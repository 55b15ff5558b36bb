"""The flags of a pattern, which change the meaning of its characters and anchors."""

from __future__ import annotations

# Plain integers, because the parser tests flags per character, and arithmetic on enum members takes a microsecond each.
ASCII = 1
IGNORECASE = 2
MULTILINE = 4
DOTALL = 8
VERBOSE = 16

LETTERS = {"a": ASCII, "i": IGNORECASE, "m": MULTILINE, "s": DOTALL, "x": VERBOSE, "u": 0}
"""The inline letter of each flag. Unicode is the absence of `ASCII`, so `u` sets nothing."""
