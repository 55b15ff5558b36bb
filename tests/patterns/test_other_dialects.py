r"""Syntax that ECMA-262 and Rust's `regex` have and `re` lacks: `\u{...}`, `\x{...}`, `\U{...}`, `\cA` and `(?<name>...)`."""

from __future__ import annotations

import re

import pytest

from logitkit.errors import PatternSyntaxError
from logitkit.patterns import parse
from tests.grammars.guidance_judge import guidance_reads
from tests.patterns.tree_matcher import fullmatch

# Each pattern, and the same one as `re` writes it.
SAME = {
    r"\u{43}": r"\x43",
    r"\x{43}+": r"\x43+",
    r"\U{1F600}": r"\U0001F600",
    r"[\u{61}-\u{000063}]": "[a-c]",
    r"[^\x{61}]": "[^a]",
    r"(?i)\u{43}": "(?i)C",
    r"\u{10FFFF}?": r"\U0010FFFF?",
    r"(?<year>[0-9]{2})": r"(?P<year>[0-9]{2})",
    r"(?<a>a)|(?<b>b(?<c>c))": r"(?P<a>a)|(?P<b>b(?P<c>c))",
    r"(?<=a)b|a": r"(?<=a)b|a",
}
# Rust's `regex` does not have these.
CONTROLS = {r"\cA": r"\x01", r"\cz": r"\x1a", r"[\cA-\cC]": r"[\x01-\x03]", r"x\cJ": r"x\n"}
TEXTS = ["", "C", "c", "CC", "😀", "a", "b", "ab", "bc", "\U0010ffff", "12", "1", "\x01", "\x03", "\x1a", "x\n", "cA"]


@pytest.mark.parametrize("pattern", [*SAME, *CONTROLS])
def test_a_pattern_has_the_texts_of_the_one_that_re_writes(pattern: str) -> None:
    written = {**SAME, **CONTROLS}[pattern]
    found = {text: fullmatch(parse(pattern), text) for text in TEXTS}
    assert found == {text: re.fullmatch(written, text) is not None for text in TEXTS}


@pytest.mark.parametrize("pattern", [pattern for pattern in SAME if "?<=" not in pattern])
def test_llguidance_reads_the_same_texts(pattern: str) -> None:
    # Its texts are not empty.
    texts = [text for text in TEXTS if text]
    assert {text: fullmatch(parse(pattern), text) for text in texts} == guidance_reads(f"start: /{pattern}/", texts)


@pytest.mark.parametrize("pattern", [r"\u{43}+", r"\cAx?", r"(?<name>ab)+(?<other>c)"])
def test_xgrammar_reads_the_same_texts(pattern: str) -> None:
    xgrammar = pytest.importorskip("xgrammar", reason="needs XGrammar: pip install -c constraints.txt xgrammar")
    testing = xgrammar.testing
    texts = [*TEXTS, "\x01x", "ababc", "abc"]
    grammar = xgrammar.Grammar.from_regex(pattern)
    found = {text: testing._is_grammar_accept_string(grammar, text) for text in texts}
    assert {text: fullmatch(parse(pattern), text) for text in texts} == found
    assert any(found.values())


@pytest.mark.parametrize(
    ("pattern", "position", "reason"),
    [
        (r"a\u{}", 1, r"incomplete escape \u{: 1 to 6 hexadecimal digits and } wanted"),
        (r"\x{4g}", 0, r"incomplete escape \x{: 1 to 6 hexadecimal digits and } wanted"),
        (r"\u{4", 0, r"incomplete escape \u{: 1 to 6 hexadecimal digits and } wanted"),
        (r"\u{110000}", 0, r"bad escape \u{110000}: the greatest code point is 10FFFF"),
        (r"\u{FFFFFFFFF}", 0, r"bad escape \u{FFFFFFFFF}: the greatest code point is 10FFFF"),
        (r"\c", 0, r"bad escape \c; a control character is written \c and a letter A to Z"),
        (r"a\c1", 1, r"bad escape \c; a control character"),
    ],
)
def test_what_is_incomplete_is_refused(pattern: str, position: int, reason: str) -> None:
    with pytest.raises(PatternSyntaxError) as error:
        parse(pattern)
    assert error.value.position == position
    assert reason in error.value.reason
