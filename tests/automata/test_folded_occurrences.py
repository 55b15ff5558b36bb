"""Automata that look for texts in any case: against `re.IGNORECASE`."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.compiler.bytes.occurrences import Occurrences, folded_occurrences
from logitkit.errors import PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.patterns import case_table
from tests.examples import examples

# Characters whose variants have one, two and three bytes, some without case, and parts of their bytes that begin others.
LETTERS = "kKKsSſaéÉ€ßẞiıİ"
TEXTS = st.lists(st.text(LETTERS, min_size=1, max_size=4), min_size=1, max_size=5)


def matches(text: str, spelled: bytes) -> bool:
    """Whether some bytes are a text but for case."""
    try:
        return re.fullmatch(re.escape(text), spelled.decode(), re.IGNORECASE) is not None
    except UnicodeDecodeError:
        return False


@settings(max_examples=examples(400))
@given(
    TEXTS, st.lists(st.sampled_from(LETTERS).map(str.encode) | st.sampled_from([b"\xe2", b"\x84", b"\xc5", b"\xbf"]))
)
def test_the_longest_text_that_ends_at_each_byte(texts: list[str], pieces: list[bytes]) -> None:
    found = folded_occurrences(texts, DEFAULT_LIMITS)
    written = b"".join(pieces)
    state = 0
    for end in range(1, len(written) + 1):
        state = int(found.step[state, found.byte_class[written[end - 1]]])
        ending = [t for t in texts if any(matches(t, written[begin:end]) for begin in range(end))]
        if not ending:
            assert found.longest[state] == -1
        else:
            longest = max(ending, key=len)
            assert matches(texts[found.longest[state]], longest.encode())


@settings(max_examples=examples(400))
@given(TEXTS, st.text(LETTERS, max_size=12))
def test_texts_without_any_occurrence(texts: list[str], text: str) -> None:
    dfa = folded_occurrences(texts, DEFAULT_LIMITS).without()
    assert dfa.accepts(text.encode()) == (not any(re.search(re.escape(t), text, re.IGNORECASE) for t in texts))


def test_every_character_with_case() -> None:
    equivalents = case_table(ascii_only=False).equivalents
    for character in [*equivalents][:: len(equivalents) // 250]:
        found = folded_occurrences([f"x{chr(character)}"], DEFAULT_LIMITS)
        for other in range(0x250) if character < 0x250 else equivalents[character]:
            state = 0
            for byte in f"X{chr(other)}".encode():
                state = int(found.step[state, found.byte_class[byte]])
            assert (found.longest[state] == 0) == (other in equivalents[character])


def test_no_explosion_by_case() -> None:
    texts = [f"{a}sick{b}kiss" for a in "kis" for b in "kis"]
    one_case = Occurrences.of([t.encode() for t in texts], DEFAULT_LIMITS)
    assert len(folded_occurrences(texts, DEFAULT_LIMITS).step) < 6 * len(one_case.step)


def test_texts_that_are_equal_but_for_case_count_as_the_first() -> None:
    assert set(folded_occurrences(["Kß", "kẞ"], DEFAULT_LIMITS).longest.tolist()) == {-1, 0}


def test_more_states_than_the_limit_are_refused() -> None:
    with pytest.raises(PatternTooLarge, match="more than 8 states"):
        folded_occurrences(["abcdefghi"], Limits(states=8))
