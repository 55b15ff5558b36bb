"""The automaton over bytes against `re`, and its minimality against Moore's algorithm."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from logitkit.compiler.bytes import in_utf8
from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE, ByteDfa
from logitkit.compiler.language import byte_dfa_of
from logitkit.errors import PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.patterns import parse
from tests.automata.moore import byte_class_matrix, live, moore, reachable
from tests.examples import examples
from tests.patterns.strategies import patterns, texts_for

EXAMPLES = settings(max_examples=examples(600), deadline=None, suppress_health_check=list(HealthCheck))

# Loops, nested counts, overlaps of one and several bytes, and sets that end in the middle of a subtree of UTF-8.
NAMED = [
    "",
    "a",
    "[a-z]*",
    "(ab)*",
    r"[^\n]*",
    "é+",
    ".",
    r"[\s\S]*",
    r"\w{1,5}",
    "[é-😀]+",
    "[\u07ff-\u0800]{2}",
    "[\uffff-\U00010000]?x",
    "[^\U0010ffff]",
    "(a|b)*a(a|b){4}",
    "(a{2}|b{3}){0,4}",
    "((a*)*|b)*",
    "(?:a?){3}a{3}",
    "(?i)straße|ſ",
    "x(yx|zx)*",
    r"[0-9](,[0-9])*",
    r"[\s\S]*</think>[\s\S]*",
    "日本|日光|日本語",
    "(?:(?:a|ab)(?:c|bcd)(?:d*))*",
]


def compiled(pattern: str) -> ByteDfa:
    return byte_dfa_of(parse(pattern), DEFAULT_LIMITS)


def drawn(data: st.DataObject) -> tuple[str, ByteDfa]:
    """Draw a pattern whose automaton is small: random nested counts are mostly huge."""
    pattern = data.draw(patterns(lookarounds=False, anchors=False, atomic=False, depth=2))
    try:
        return pattern, byte_dfa_of(parse(pattern), Limits(states=400, work=10_000))
    except PatternTooLarge:
        reject()


def accepted_by_re(pattern: str, text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.fullmatch(pattern, text) is not None


def check_minimal(dfa: ByteDfa) -> None:
    """Check that each state is reached and live, and that no two accept the same texts; so there are as few as can be."""
    step, accepting = byte_class_matrix(dfa)
    states = np.arange(FIRST_STATE, len(step))
    if not accepting.any():
        assert len(states) == 1
        return
    assert not step[[DEAD, FINISHED]].any()
    assert not accepting[[DEAD, FINISHED]].any()
    assert reachable(step, dfa.start)[states].all()
    assert live(step, accepting)[states].all()
    blocks = moore(step, accepting)
    assert len(np.unique(blocks[states])) == len(states)
    assert blocks[DEAD] not in blocks[states]


@EXAMPLES
@given(st.data())
def test_accepts_what_re_accepts_and_is_minimal(data: st.DataObject) -> None:
    pattern, dfa = drawn(data)
    check_minimal(dfa)
    for _ in range(5):
        # Cut, because `re` may backtrack for exponential time.
        text = data.draw(texts_for(pattern))[:14]
        assert dfa.accepts(text.encode()) == accepted_by_re(pattern, text), (pattern, text)


@pytest.mark.parametrize("pattern", NAMED)
def test_named_patterns_are_minimal(pattern: str) -> None:
    check_minimal(compiled(pattern))


@EXAMPLES
@given(st.sampled_from(NAMED), st.data())
def test_named_patterns_accept_what_re_accepts(pattern: str, data: st.DataObject) -> None:
    dfa = compiled(pattern)
    for _ in range(3):
        text = data.draw(texts_for(pattern))
        assert dfa.accepts(text.encode()) == accepted_by_re(pattern, text), (pattern, text)


@pytest.mark.parametrize("pattern", [r"[\s\S]*", "(?s).*", r"[^a]*", r"[\w\W]+", r"\D*", "[\ud7ff-\U0010ffff]*"])
def test_no_invalid_utf8(pattern: str) -> None:
    dfa = compiled(pattern)
    # Every start of a well-formed sequence of up to four bytes, against Python's decoder.
    wrong = []
    for lead in range(0x80, 0x100):
        for second in range(0x100):
            if second in (0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0x41):
                wrong += [bytes([lead, second, *tail]) for tail in ((), (0x80,), (0xBF, 0xBF), (0x80,) * 3)]
    for text in [*wrong, *(bytes([b]) for b in range(0x80, 0x100))]:
        try:
            decoded = text.decode()
        except UnicodeDecodeError:
            assert not dfa.accepts(text), text
        else:
            assert dfa.accepts(text) == accepted_by_re(pattern, decoded), text


@pytest.mark.parametrize(
    "text",
    [
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x80\x80",
        b"\xe0\x9f\xbf",
        b"\xf0\x80\x80\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\x80",
        b"\xe9",
        b"\xc3\xa9\xa9",
        b"\xfe",
        b"\xff",
    ],
)
def test_overlong_surrogates_and_what_is_too_large_die(text: bytes) -> None:
    dfa = compiled(r"[\s\S]*")
    assert dfa.run(b"ok" + text + b"ok") == DEAD
    assert not dfa.accepts(text)


def test_every_character_of_two_sets() -> None:
    word, other = compiled(r"\w"), compiled(r"[^\w]")
    for code in [*range(0x3000), *range(0xD7F0, 0xD800), *range(0xE000, 0x110000, 97), 0x10FFFF]:
        text = chr(code)
        is_word = re.fullmatch(r"\w", text) is not None
        assert word.accepts(text.encode()) == is_word
        assert other.accepts(text.encode()) != is_word


def test_empty_language() -> None:
    dfa = compiled(r"[^\s\S]b")
    assert not dfa.accepting.any()
    assert not dfa.accepts(b"")
    assert not dfa.accepts(b"b")


def test_a_language_that_only_some_branches_leave_empty() -> None:
    dfa = compiled(r"a|b[^\s\S]c|(?:d[^\w\W])*e")
    assert dfa.accepts(b"a")
    assert dfa.accepts(b"e")
    assert dfa.run(b"b") == DEAD
    assert dfa.run(b"d") == DEAD
    check_minimal(dfa)


def test_rows_whose_hashes_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that a sum cannot tell apart: rows are grouped by comparison instead."""

    class Ones:
        def integers(self, *_: object, dtype: type[np.uint64]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
            return np.ones(_[2], dtype)  # type: ignore[call-overload, no-any-return]

    rows = np.array([[1, 2], [2, 1], [1, 2], [0, 3], [3, 0]], np.int32)
    monkeypatch.setattr(np.random, "default_rng", lambda _: Ones())
    number, first, content = in_utf8._group(rows, np.array([[0, 1]]), np.arange(5), np.zeros(5, np.int64))
    assert np.array_equal(rows[first][number], rows)
    assert np.array_equal(content, rows[first])
    assert len(first) == 4
    for pattern in NAMED:
        check_minimal(compiled(pattern))


@pytest.mark.parametrize(
    ("pattern", "other"), [(r"[a-z]\b|[a-z](?=\w)q", "[a-z](?:q)?"), (r"(?:é(?!é)|a)b?", "éb?|ab?")]
)
def test_what_only_a_lookaround_told_apart_is_forgotten(pattern: str, other: str) -> None:
    found, expected = compiled(pattern), compiled(other)
    assert np.array_equal(found.step, expected.step)
    assert np.array_equal(found.byte_class, expected.byte_class)
