"""Why a pattern refuses a token: brute force, `re`, and the partial matching of the package `regex` as judges."""

from __future__ import annotations

import json
import re
import time
from itertools import takewhile

import pytest
import regex  # type: ignore[import-untyped]
from hypothesis import assume, given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.explaining.token_texts import spelled
from logitkit.patterns import Characters, parse
from tests.explaining.small_patterns import (
    FEW,
    FEW_TOKENS,
    TOKENS,
    VOCABULARY,
    beginnings,
    matching,
    small_patterns,
    tokens_to_the_end,
)

ASCII = lk.Vocabulary([*(bytes([b]) for b in range(128)), None], eos_ids=[128])


@given(small_patterns(), st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_bytes_counts_and_completions_are_those_of_brute_force(pattern: str, output: list[int]) -> None:
    try:
        constraint = lk.Regex(pattern, VOCABULARY)
    except ConfigurationError:
        assert not matching(pattern)
        return
    found = lk.explain(constraint, VOCABULARY, [], output)
    text, viable = "", beginnings(pattern)
    for step, token in zip(found.steps, output, strict=True):
        legal = sum(text + other in viable for other in TOKENS) + (text in matching(pattern))
        assert step.legal == legal
        after = text + TOKENS[token]
        if after in viable:
            assert step.refusal is None
            text = after
            continue
        refusal = step.refusal
        assert refusal is not None
        assert refusal.cause == "language"
        longest = max(length for length in range(len(after)) if after[:length] in viable)
        assert refusal.byte == longest
        begun = after[:longest]
        expected = [f"'{letter}'" for letter in "ab" if begun + letter in viable]
        expected += ["the end"] if begun in matching(pattern) else []
        listed = f"{', '.join(expected[:-1])} or {expected[-1]}" if len(expected) > 1 else expected[0]
        assert refusal.expected == listed
        completion = refusal.completion
        assert completion is not None
        assert text + "".join(TOKENS[i] for i in completion) in matching(pattern)
        assert len(completion) == tokens_to_the_end(pattern, text)
        return
    assert found.complete == (text in matching(pattern))
    assert found.completion is not None
    assert len(found.completion) == tokens_to_the_end(pattern, text)


@given(small_patterns(), st.lists(st.integers(0, 3), min_size=1, max_size=2))
def test_texts_that_the_tokens_cannot_complete_have_a_cause_of_their_own(pattern: str, output: list[int]) -> None:
    try:
        constraint = lk.Regex(pattern, FEW)
    except ConfigurationError:
        assert tokens_to_the_end(pattern, "", FEW_TOKENS) is None
        return
    found, text = lk.explain(constraint, FEW, [], output), ""
    for step, token in zip(found.steps, output, strict=True):
        needed = {after: tokens_to_the_end(pattern, text + after, FEW_TOKENS) for after in FEW_TOKENS}
        legal = [after for after in FEW_TOKENS if needed[after] is not None]
        assert step.legal == len(legal) + (text in matching(pattern))
        before, text = text, text + FEW_TOKENS[token]
        if FEW_TOKENS[token] in legal:
            assert step.refusal is None
            continue
        refusal = step.refusal
        assert refusal is not None
        if text in beginnings(pattern):
            assert (refusal.cause, refusal.byte) == ("vocabulary", None)
            assert all(f"'{after}'" in refusal.expected for after in legal)
        else:
            longest = max(length for length in range(len(text)) if text[:length] in beginnings(pattern))
            assert (refusal.cause, refusal.byte) == ("language", longest)
        assert refusal.completion is not None
        assert len(refusal.completion) == tokens_to_the_end(pattern, before, FEW_TOKENS)
        return


@given(small_patterns(), st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_the_sources_of_a_pattern_describe_what_is_expected(pattern: str, output: list[int]) -> None:
    assume(matching(pattern))
    refusal = lk.explain(lk.Regex(pattern, VOCABULARY), VOCABULARY, [], output).refusal
    if refusal is None:
        return
    assert refusal.byte is not None
    begun = "".join(TOKENS[i] for i in output)[: refusal.byte]
    letters = {letter for letter in "ab" if begun + letter in beginnings(pattern)}
    described = set()
    for source in refusal.sources:
        assert source.span is not None
        assert source.text == pattern[slice(*source.span)]
        item = parse(re.sub(r"(?:[*+?]|\{[0-9,]+\})$", "", source.text))
        if isinstance(item, Characters):
            assert {letter for letter in letters if ord(letter) in item.charset}
            described |= {letter for letter in letters if ord(letter) in item.charset}
        else:
            assert source.text.startswith(("(?", "\\b", "$", "^"))
            described |= letters
    assert described == letters


ITEMS = ["[0-9]", "x", "-", r"\.", "[A-F]", "é", "[α-ω]", " ", r"\n", "y|z"]
LETTERS = ["7", "x", "-", ".", "C", "é", "λ", " ", "\n", "z"]
COUNTS = ["", "{3}", "{2,2}"]
REPEATED = {"": 1, "{3}": 3, "{2,2}": 2}


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(COUNTS)), min_size=1, max_size=5), st.data())
def test_the_span_is_that_of_the_part_that_was_left_out(parts: list[tuple[int, str]], data: st.DataObject) -> None:
    """Patterns of known structure: a text that stops inside a part, and goes on with a letter of no part."""
    texts, spans, pattern = [], [], ""
    for which, count in parts:
        item = f"(?:{ITEMS[which]}){count}" if "|" in ITEMS[which] else ITEMS[which] + count
        for _ in range(REPEATED[count]):
            texts.append(LETTERS[which])
            spans.append((len(pattern), len(pattern) + len(item)))
        pattern += item
    stop = data.draw(st.integers(0, len(texts) - 1))
    begun = "".join(texts[:stop])
    vocabulary = lk.Vocabulary([*(bytes([b]) for b in range(256)), None], eos_ids=[256])
    refusal = lk.explain(lk.Regex(pattern, vocabulary), vocabulary, [], f"{begun}#").refusal
    assert refusal is not None
    assert refusal.byte == len(begun.encode())
    (first, last) = spans[stop]
    for source in refusal.sources:
        assert source.span is not None
        assert first <= source.span[0] < source.span[1] <= last
    assert refusal.sources


CORPUS = {
    r"\d{4}-\d{2}-\d{2}": "2026-11-23",
    r"[a-z0-9._-]+@[a-z0-9-]+(\.[a-z]{2,7})+": "jane.doe@mail.example.org",
    r"(?i)(yes|no|maybe)( please)?": "Maybe PLEASE",
    r"(25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})(\.(25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})){3}": "192.168.255.1",
    r'"([^"\\]|\\["\\nt])*"': '"a \\"quoted\\" text"',
    r"[A-Z][a-z]+( [A-Z]\.)?( [A-Z][a-z]+){1,2}": "Ada B. Lovelace",
    r"#[0-9a-f]{6}|rgb\((\d{1,3}, ){2}\d{1,3}\)": "rgb(12, 200, 7)",
    r"(?x) [+-]? (?: [0-9]+ (?: \. [0-9]* )? | \. [0-9]+ ) # a number": "-12.75",
    r"(?:def|class)\s+[A-Za-z_]\w*\s*(\([^()]*\))?:": "def run(self, text):",
    r"[\s\S]{3,20}end": "the long end",
    r"\p{Lu}\p{Ll}+ß?": "Straß",
}


@pytest.mark.parametrize("pattern", CORPUS)
def test_the_byte_is_that_of_partial_matching(pattern: str, tekken: lk.Vocabulary) -> None:
    """At each place of a matching text, some letters are tried; the package `regex` knows which beginnings may still match."""
    text, constraint, judge = CORPUS[pattern], lk.Regex(pattern, tekken), regex.compile(pattern)
    assert judge.fullmatch(text)
    for place in range(len(text)):
        for letter in "7\n#é":
            broken = text[:place] + letter + text[place + 1 :]
            beginnings = (broken[:length] for length in range(len(broken) + 1))
            *_, viable = takewhile(lambda begun: judge.fullmatch(begun, partial=True), beginnings)
            found = lk.explain(constraint, tekken, [], spelled(broken, tekken))
            if viable == broken:
                assert found.refusal is None
                continue
            assert found.refusal is not None
            # A letter of several bytes may fail after its first one.
            assert found.refusal.byte in range(len(viable.encode()), len(broken[: len(viable) + 1].encode()))
            assert found.refusal.sources or found.refusal.expected == "the end"


@pytest.mark.parametrize(
    ("pattern", "text", "byte", "expected", "sources"),
    [
        ("[0-9]{4}-", "20x", 2, "digit", ["[0-9]{4}"]),
        ("-?[0-9]+", "x", 0, "digit or '-'", ["-?", "[0-9]+"]),
        ("(?!no)[a-z]{2}", "no", 1, "a letter from 'a' to 'n' or a letter from 'p' to 'z'", ["(?!no)"]),
        (r"[a-z-]+\b-?x", "a!", 1, "lower-case letter or '-'", ["[a-z-]+", "-?", "x"]),
        ("é|[α-ω]{2}", "λx", 2, "a letter from 'α' to 'ω'", ["[α-ω]{2}"]),
        ("[^\n]{2}", "a\n", 1, "any character but newline", ["[^\n]{2}"]),
        ("[Ô-Ö]", "é", 1, "'Ô', 'Õ' or 'Ö'", ["[Ô-Ö]"]),
        (r"\p{Lu}x", "é", 1, "upper-case letter or a character beyond ASCII", [r"\p{Lu}"]),
        ("(?=b)(a|b)", "c", 0, "'b'", ["b"]),
        ("yes|no", "yo", 1, "'e'", ["e"]),
        ("(?:ab){2}", "abb", 2, "'a'", ["a"]),
        (r"\w\d", "!", 0, "letter, digit or '_' of any script", [r"\w"]),
        (r"\w\d", "a!", 1, "digit of any script", [r"\d"]),
        ("a", "aa", 1, "the end", []),
        ("(?x) a # letter\n b", "ac", 1, "'b'", ["b"]),
        ("([ab]){3}c", "abx", 2, "'a' or 'b'", ["[ab]"]),
        ("[[a]]", "b", 0, "'[' or 'a'", ["[[a]"]),
    ],
)
def test_reasons_by_hand(pattern: str, text: str, byte: int, expected: str, sources: list[str]) -> None:
    vocabulary = lk.Vocabulary([*(bytes([b]) for b in range(256)), None], eos_ids=[256])
    refusal = lk.explain(lk.Regex(pattern, vocabulary), vocabulary, [], text).refusal
    assert refusal is not None
    assert (refusal.byte, refusal.expected) == (byte, expected)
    assert [source.text for source in refusal.sources] == sources


def test_a_thousand_tokens_take_less_than_a_second(tekken: lk.Vocabulary) -> None:
    words = lk.Regex(r"[A-Za-z ]+\.", tekken)
    items = lk.JsonSchema(
        {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}, tekken
    )
    written = json.dumps([{"n": number} for number in range(400)], separators=(",", ":"))
    for constraint, text in ((words, "The quick brown fox jumps over the lazy dog " * 120), (items, written)):
        output = [*spelled(text, tekken)[:999], tekken.tokens.index(b"\0")]
        assert len(output) == 1000
        taken = []
        for _ in range(3):
            begin = time.process_time()
            assert lk.explain(constraint, tekken, [], output).refusal
            taken.append(time.process_time() - begin)
        assert min(taken) < 1
