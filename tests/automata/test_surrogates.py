"""No automaton over bytes writes half of a surrogate pair, whatever the sets of its pattern contain."""

from __future__ import annotations

import re

import pytest

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.language import pattern_dfa
from logitkit.errors import ConfigurationError
from tests.json_schema.acceptance import BYTES

CHARACTERS = ["a", "\ud7ff", "\ue000", "\uffff", "\U0001f300", "\U0010ffff"]
# The bytes that every half begins with, which no character begins with.
HALVES = [b"\xed" + bytes([second]) for second in range(0xA0, 0xC0)]


@pytest.mark.parametrize(
    "pattern",
    [
        "[^\ud801]",
        "[\ud7ff-\ue000]",
        "a|\udc00",
        "[a\ud900\udfff]",
        r"[\ud900-\udbff\uffff]",
        r"(?!\ud900)[\s\S]",
        r"[\s\S](?<!\udc00)",
        r"(?i)[^\ud801-\ud802]",
        r"[^\ud801][^\udc01]?",
        r"(?:[\ud801a]|[\ud7ff\udc01])",
        "|".join([r"\udc00", *map(str, range(70))]),
        r"(?:[^\ud801]{2}){3,50}",
        r"(?>[^\udc01]|\udc01)",
        r"\ud7ff\udc00?\ue000",
    ],
)
def test_only_characters_are_written(pattern: str) -> None:
    dfa, regex = pattern_dfa(pattern, lk.Limits()), lk.Regex(pattern, BYTES)
    for text in ["", *CHARACTERS, *(one + other for one in CHARACTERS for other in CHARACTERS)]:
        assert regex.matches(text) == (re.fullmatch(pattern, text) is not None), text
        state = dfa.run(text.encode())
        assert state == DEAD or all(dfa.run(text.encode() + half) == DEAD for half in HALVES), text


@pytest.mark.parametrize("pattern", ["\ud800", r"\ud83c\udf00", r"\ud83c[\udf00-\udfff]", "[\udc00-\udc01]+"])
def test_halves_alone_match_no_text(pattern: str) -> None:
    """As in `re`, where each of these matches half of a pair, and a pair of halves is not a character."""
    assert not any(re.fullmatch(pattern, text) for text in CHARACTERS)
    with pytest.raises(ConfigurationError, match=r"matches no text at all.*half of a surrogate pair"):
        lk.Regex(pattern, BYTES)
