"""`then`: one section until a marker, another after it."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.errors import ConfigurationError, PatternTooLarge
from tests.examples import examples
from tests.processors.four_logits import NEVER, after

# Ids:                      0     1     2      3 = EOS
AB = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
LOGITS = [0.5, -1.0, 2.0, 3.0]

# Ids:                           0     1     2     3 = EOS
SPECIAL = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3])


def test_eos_waits_for_the_marker() -> None:
    free = lk.then(None, lk.Regex("a*", AB), "b")
    assert after(free, [], LOGITS) == [0.5, -1.0, 2.0, NEVER]
    assert after(free, [0, 0], LOGITS) == [0.5, -1.0, 2.0, NEVER]
    assert after(free, [1], LOGITS) == [0.5, NEVER, NEVER, 3.0]


def test_the_marker_may_end_inside_a_token() -> None:
    assert after(lk.then(None, lk.Regex("b{2}", AB), "a"), [2], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(lk.then(None, lk.Regex("", AB), "a"), [], LOGITS) == [0.5, -1.0, NEVER, NEVER]


def test_the_first_marker_counts() -> None:
    # After "b", a second one is not part of the answer.
    assert after(lk.then(None, lk.Regex("a", AB), "b"), [0, 1], LOGITS) == [0.5, NEVER, NEVER, NEVER]


def test_ids_without_text_before_and_after() -> None:
    assert after(lk.then(None, lk.Regex("a", SPECIAL), "b"), [], LOGITS) == [0.5, -1.0, 2.0, NEVER]
    assert after(lk.then(None, lk.Regex("a", SPECIAL), "b"), [2, 1], LOGITS) == [0.5, NEVER, NEVER, NEVER]
    assert after(lk.then(lk.Regex("a", SPECIAL), None, "b"), [], LOGITS) == [0.5, NEVER, NEVER, NEVER]
    assert after(lk.then(lk.Regex("a", SPECIAL), None, "b"), [0, 1], LOGITS) == LOGITS


def test_a_token_as_marker() -> None:
    special = lk.then(None, lk.Regex("a", SPECIAL), 2)
    assert after(special, [], LOGITS) == [0.5, -1.0, 2.0, NEVER]
    assert after(special, [1, 2], LOGITS) == [0.5, NEVER, NEVER, NEVER]
    assert after(special, [1, 2, 0], LOGITS) == [NEVER, NEVER, NEVER, 3.0]
    strict = lk.then(lk.Regex("ab?", SPECIAL), None, 2)
    assert after(strict, [], LOGITS) == [0.5, NEVER, NEVER, NEVER]
    assert after(strict, [0], LOGITS) == [NEVER, -1.0, 2.0, NEVER]
    assert after(strict, [0, 2], LOGITS) == LOGITS


def test_a_token_with_text_as_marker_is_that_token_only() -> None:
    by_id = lk.then(None, lk.Regex("a", AB), 2)
    assert after(by_id, [0, 1], LOGITS) == [0.5, -1.0, 2.0, NEVER]
    assert after(by_id, [2], LOGITS) == [0.5, NEVER, NEVER, NEVER]
    assert after(lk.then(None, lk.Regex("ab", AB), 2), [2], LOGITS) == [0.5, NEVER, 2.0, NEVER]


def test_an_automaton_over_ids_around_a_token() -> None:
    dfa = lk.Dfa({(0, 1): 1, (1, 2): 0}, start=0, accepting={1}, vocabulary=SPECIAL)
    assert after(lk.then(dfa, lk.Regex("a", SPECIAL), 0), [1], LOGITS) == [0.5, NEVER, 2.0, NEVER]
    assert after(lk.then(lk.Regex("a", SPECIAL), dfa, 2), [0, 2], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


SPLIT = lk.Vocabulary(
    [b"a", b"b", b"c", b"ab", b"ba", b"aab", b"bc", b"cab", "é".encode(), b"\xc3", b"\xa9", None, None], eos_ids=[12]
)
SECOND = [None, "[ab]*", "(ba|é)+", "c?", "a{2}"]


@settings(max_examples=examples(300))
@given(
    st.sampled_from(SECOND),
    st.sampled_from(SECOND),
    st.sampled_from(["ab", "aab", "c", "bab", "é"]),
    st.data(),
)
def test_walks_against_the_decoded_text(
    first: str | None, second: str | None, marker: str, data: st.DataObject
) -> None:
    if first is None and second is None:
        return
    sections = [None if p is None else lk.Regex(p, SPLIT) for p in (first, second)]
    try:
        automaton = lk.then(sections[0], sections[1], marker).automaton
    except ConfigurationError:
        return
    state, text = automaton.start, b""
    for _ in range(12):
        before, found, behind = text.partition(marker.encode())
        whole = found and _matches(first, before) and _matches(second, behind)
        assert (automaton.next(state, 12) == FINISHED) == bool(whole)
        legal = [t for t in range(11) if automaton.next(state, t) != DEAD]
        assert legal or whole
        section = second if found else first
        assert (automaton.next(state, 11) == state) == (section is None)
        if second is None and found:
            assert len(legal) == 11
        if first is None and not found:
            # Free, but for tokens that run past the marker into what cannot come.
            for token in range(11):
                said = text + (SPLIT.tokens[token] or b"")
                assert token in legal or marker.encode() in said
        if not legal:
            break
        token = data.draw(st.sampled_from(legal))
        state, text = automaton.next(state, token), text + (SPLIT.tokens[token] or b"")


def _matches(pattern: str | None, text: bytes) -> bool:
    return pattern is None or re.fullmatch(pattern, text.decode(errors="surrogateescape")) is not None


@pytest.mark.parametrize("name", ["tekken", "sentencepiece_32k"])
def test_thinking_and_an_answer(name: str, request: pytest.FixtureRequest) -> None:
    vocabulary: lk.Vocabulary = request.getfixturevalue(name)
    answer = lk.then(None, lk.Regex("yes|no", vocabulary), "</think>").automaton
    whole = re.compile(rb"(?s)(?:(?!</think>).)*</think>(?:yes|no)")
    pieces = [p for p in vocabulary.tokens if p and (b"<" in p or b">" in p or p in b"</think>yesno" or len(p) == 1)]
    ids = {t: i for i, t in enumerate(vocabulary.tokens) if t}
    rng = random.Random(4)
    accepted = 0
    for _ in range(500):
        state, text = answer.start, b""
        goal = rng.choice([b"so</think>yes", b"</think>no", b"<</think>no", b"</th</think>yes", b"</think>y"])
        while len(text) < len(goal):
            fitting = [p for p in pieces if goal.startswith(p, len(text))]
            piece = rng.choice(fitting if rng.random() < 0.97 else pieces)
            state, text = answer.next(state, ids[piece]), text + piece
        accepts = answer.next(state, vocabulary.eos_ids[0]) == FINISHED
        assert accepts == (whole.fullmatch(text) is not None)
        accepted += accepts
    assert accepted > 100


def test_bans_before_and_after_a_token() -> None:
    bans = lk.BannedStrings(["ab", "ca"], SPLIT)
    before, behind = lk.then(bans, lk.Regex("[abc]*", SPLIT), 11), lk.then(lk.Regex("[abc]*", SPLIT), bans, 11)
    for tokens in ([0], [2]):
        state = before.automaton.start
        for token in tokens:
            state = before.automaton.next(state, token)
        for token in range(8):
            said = SPLIT.decode([*tokens, token])
            assert (before.automaton.next(state, token) != DEAD) == (b"ab" not in said and b"ca" not in said)
        state = behind.automaton.next(behind.automaton.next(behind.automaton.start, 3), 11)
        for token in tokens:
            state = behind.automaton.next(state, token)
        for token in range(8):
            said = SPLIT.decode([*tokens, token])
            assert (behind.automaton.next(state, token) != DEAD) == (b"ab" not in said and b"ca" not in said)
        assert behind.automaton.next(state, 11) == state


def test_sections_in_sections() -> None:
    three = lk.then(lk.then(None, lk.Regex("[ab]", SPLIT), "c"), lk.Regex("a", SPLIT), "é").automaton
    for text, expected in (("xcaéa", False), ("bcaéa", True), ("caaéa", False), ("ccbéa", False), ("éca", False)):
        state = three.start
        for byte in text.encode():
            token = next((i for i, t in enumerate(SPLIT.tokens) if t == bytes([byte])), SPLIT.size)
            state = three.next(state, token)
        assert (three.next(state, 12) == FINISHED) == expected, text


def test_several_constraints_in_a_section() -> None:
    both = lk.Intersection((lk.Regex("[abc]+", SPLIT), lk.BannedStrings(["ab", "c"], SPLIT)))
    behind = lk.then(None, both, "c").automaton
    for text, expected in (("ca", True), ("cba", True), ("cab", False), ("cc", False), ("c", False), ("abcaa", True)):
        state = behind.start
        for byte in text.encode():
            state = behind.next(state, SPLIT.tokens.index(bytes([byte])))
        assert (behind.next(state, 12) == FINISHED) == expected, text


def test_values_that_are_not_sections_or_markers() -> None:
    regex = lk.Regex("a", AB)
    with pytest.raises(ConfigurationError, match="first and second are both None"):
        lk.then(None, None, "b")
    with pytest.raises(ConfigurationError, match="second is 'a'; give a constraint"):
        lk.then(regex, "a", "b")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="first is 'a'; give a constraint"):
        lk.then("a", regex, "b")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="the constraint in second has another vocabulary"):
        lk.then(regex, lk.Regex("a", SPECIAL), "b")
    with pytest.raises(ConfigurationError, match="marker is empty"):
        lk.then(None, regex, "")
    with pytest.raises(ConfigurationError, match=r"marker is 1\.5 of type float; allowed are str, bytes and integer"):
        lk.then(None, regex, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="marker is the token id 4; allowed are ids from 0 to 3"):
        lk.then(None, regex, 4)
    with pytest.raises(ConfigurationError, match="marker is the EOS id 3"):
        lk.then(None, regex, 3)
    dfa = lk.Dfa({(0, 1): 1}, start=0, accepting={1}, vocabulary=AB)
    with pytest.raises(ConfigurationError, match="Dfa is a constraint over token ids"):
        lk.then(None, dfa, "b")
    with pytest.raises(ConfigurationError, match="the marker is the token id 2"):
        lk.then(None, lk.then(None, regex, 2), "b")


def test_nothing_left() -> None:
    with pytest.raises(ConfigurationError, match="the text around the marker 'c'"):
        lk.then(None, lk.Regex("a", AB), "c")
    stuck = lk.Dfa({(0, 2): 1, (1, 0): 2}, start=0, accepting={2}, vocabulary=SPECIAL)
    with pytest.raises(ConfigurationError, match="no sequence of tokens satisfies the constraints around the marker 2"):
        lk.then(stuck, None, 2)
    with pytest.raises(PatternTooLarge, match="more than 4 states"):
        lk.then(None, lk.Regex("a", AB), "babb", limits=lk.Limits(states=4))
