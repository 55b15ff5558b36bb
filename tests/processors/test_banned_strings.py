"""`BannedStrings`: what is never said, whatever the tokenisation."""

from __future__ import annotations

import itertools
import random
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.errors import ConfigurationError, PatternTooLarge, VocabularyError
from tests.examples import examples
from tests.processors.four_logits import NEVER, after

# Ids:                      0     1     2      3 = EOS
AB = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
LOGITS = [0.5, -1.0, 2.0, 3.0]


def test_the_token_that_would_complete_a_text() -> None:
    assert after(lk.BannedStrings(["ab"], AB), [], LOGITS) == [0.5, -1.0, NEVER, 3.0]
    assert after(lk.BannedStrings(["ab"], AB), [0], LOGITS) == [0.5, NEVER, NEVER, 3.0]
    assert after(lk.BannedStrings(["ab"], AB), [1], LOGITS) == [0.5, -1.0, NEVER, 3.0]


def test_a_text_may_begin_and_end_inside_tokens() -> None:
    # "bab" is b|ab, and ab|ab has it inside.
    assert after(lk.BannedStrings(["bab"], AB), [1], LOGITS) == [0.5, -1.0, NEVER, 3.0]
    assert after(lk.BannedStrings(["bab"], AB), [2], LOGITS) == [0.5, -1.0, NEVER, 3.0]
    assert after(lk.BannedStrings(["bab"], AB), [2, 0], LOGITS) == [0.5, NEVER, 2.0, 3.0]


def test_a_prefix_is_found_again_inside_itself() -> None:
    assert after(lk.BannedStrings(["aab"], AB), [0, 0, 0], LOGITS) == [0.5, NEVER, NEVER, 3.0]


def test_what_begins_in_the_prompt_may_be_completed() -> None:
    assert after(lk.BannedStrings(["ab"], AB), [], LOGITS, prompt=[0]) == [0.5, -1.0, NEVER, 3.0]


def test_ids_without_text_change_nothing() -> None:
    # Ids:                       0     1     2     3 = EOS
    special = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3])
    assert after(lk.BannedStrings(["ab"], special), [], LOGITS) == LOGITS
    assert after(lk.BannedStrings(["ab"], special), [0, 2], LOGITS) == [0.5, NEVER, 2.0, 3.0]
    padded = lk.Vocabulary([b"a", b"b", None], eos_ids=[2], size=4)
    assert after(lk.BannedStrings(["a"], padded), [3], LOGITS) == [NEVER, -1.0, 2.0, 3.0]


def test_eos_is_always_legal_and_ends_the_row() -> None:
    assert after(lk.BannedStrings(["a", "b"], AB), [], LOGITS) == [NEVER, NEVER, NEVER, 3.0]
    assert after(lk.BannedStrings(["a"], AB), [3], LOGITS) == [NEVER, NEVER, NEVER, 3.0]


def test_a_draft_that_said_it_ends() -> None:
    assert after(lk.BannedStrings(["ab"], AB), [2], LOGITS) == [NEVER, NEVER, NEVER, 0.0]


def test_case() -> None:
    # Ids:                       0     1               2     3 = EOS
    cases = lk.Vocabulary([b"K", "\u212a".encode(), b"a", None], eos_ids=[3])
    assert after(lk.BannedStrings(["ak"], cases), [2], LOGITS) == LOGITS
    assert after(lk.BannedStrings(["ak"], cases, ignore_case=True), [2], LOGITS) == [NEVER, NEVER, 2.0, 3.0]


def test_pieces_of_characters() -> None:
    # Ids:                       0        1        2     3 = EOS
    pieces = lk.Vocabulary([b"\xc5", b"\xbf", b"a", None], eos_ids=[3])
    assert after(lk.BannedStrings(["as"], pieces, ignore_case=True), [2], LOGITS) == LOGITS
    assert after(lk.BannedStrings(["as"], pieces, ignore_case=True), [2, 0], LOGITS) == [0.5, NEVER, 2.0, 3.0]
    assert after(lk.BannedStrings([b"\xbf"], pieces), [], LOGITS) == [0.5, NEVER, 2.0, 3.0]


SPLIT = lk.Vocabulary([b"a", b"b", b"ab", b"ba", b"aab", "é".encode(), b"\xc3", b"\xa9", b"A", None], eos_ids=[9])


@settings(max_examples=examples(200))
@given(st.lists(st.text("abé", min_size=1, max_size=4), min_size=1, max_size=5), st.booleans(), st.data())
def test_walks_against_the_decoded_text(strings: list[str], ignore_case: bool, data: st.DataObject) -> None:
    banned = [re.compile(re.escape(s), re.IGNORECASE if ignore_case else 0) for s in strings]
    automaton = lk.BannedStrings(strings, SPLIT, ignore_case).automaton
    state, text = automaton.start, b""
    for _ in range(8):
        legal = []
        for token in range(9):
            said = text + (SPLIT.tokens[token] or b"")
            # Half a character is not an occurrence, and does not hide one.
            spelled = said.decode(errors="replace")
            if not any(b.search(spelled) for b in banned):
                legal.append(token)
            assert (automaton.next(state, token) != DEAD) == (token in legal)
        assert automaton.next(state, 9) == FINISHED
        if not legal:
            break
        token = data.draw(st.sampled_from(legal))
        state, text = automaton.next(state, token), text + (SPLIT.tokens[token] or b"")


@pytest.mark.parametrize("name", ["tekken", "sentencepiece_32k"])
@pytest.mark.parametrize("ignore_case", [False, True])
def test_every_token_of_a_real_vocabulary(name: str, ignore_case: bool, request: pytest.FixtureRequest) -> None:
    vocabulary: lk.Vocabulary = request.getfixturevalue(name)
    strings = [" the", "ing", "Straße", "e.g.", "kiss", "\n\n", "日本"]
    automaton = lk.BannedStrings(strings, vocabulary, ignore_case).automaton
    flags = re.IGNORECASE if ignore_case else 0
    banned = re.compile("|".join(map(re.escape, strings)), flags)
    for begun in ("", " t", "x ki", "stra"):
        state = automaton.start
        ids = {t: i for i, t in enumerate(vocabulary.tokens) if t}
        for byte in begun.encode():
            state = automaton.next(state, ids[bytes([byte])])
        legal = automaton.legal_classes(state)[automaton.class_of]
        for token, spelled in enumerate(vocabulary.tokens):
            said = (begun.encode() + (spelled or b"")).decode(errors="replace")
            assert legal[token] == (banned.search(said) is None), (begun, spelled)


def test_a_pattern_and_a_ban_have_no_dead_end() -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", b"c", b"d", b"ab", b"bc", b"cd", None], eos_ids=[7])
    both = lk.chain(lk.Regex("(ab|cd)+", vocabulary), lk.BannedStrings(["abab", "dc"], vocabulary)).processors[0]
    assert isinstance(both, lk.Intersection)
    automaton = both.automaton
    pattern, found = re.compile(b"(ab|cd)+"), set()
    walks: list[tuple[int, ...]] = [()]
    while walks:
        walk = walks.pop()
        state, text = automaton.start, vocabulary.decode(walk)
        for token in walk:
            state = automaton.next(state, token)
        if automaton.accepting[state]:
            found.add(text)
        legal = [t for t in range(7) if automaton.next(state, t) != DEAD]
        assert legal or automaton.accepting[state]
        walks += [(*walk, t) for t in legal if len(text) < 8]
    halves = [b"", b"ab", b"cd"]
    texts = {b"".join(t) for t in itertools.product(halves, repeat=4)} - {b""}
    expected = {t for t in texts if pattern.fullmatch(t) and b"abab" not in t and b"dc" not in t}
    assert {t for t in found if len(t) <= 8} == expected


def test_a_pattern_of_which_nothing_is_left() -> None:
    with pytest.raises(ConfigurationError, match=r"no text is allowed by all .* \(Regex, BannedStrings\)"):
        lk.chain(lk.Regex("a+b", AB), lk.BannedStrings(["ab"], AB))


def test_bans_in_turn_are_bans_together() -> None:
    apart = lk.chain(lk.BannedStrings(["ab"], AB), lk.BannedStrings(["BB"], AB, ignore_case=True))
    for tokens in ([], [0], [1], [1, 0]):
        assert after(apart, tokens, LOGITS) == after(lk.BannedStrings(["ab", "bb"], AB), tokens, LOGITS)


def test_three_thousand_strings_in_any_case(tekken: lk.Vocabulary) -> None:
    rng = random.Random(5)
    words = [t.decode() for t in tekken.tokens if t is not None and 4 <= len(t) <= 9 and t.isalpha()]
    strings = [f"{rng.choice(words)} {rng.choice(words)}" for _ in range(3000)]
    automaton = lk.BannedStrings(strings, tekken, ignore_case=True).automaton
    assert automaton.nbytes < 60 * 2**20
    ids = {t: i for i, t in enumerate(tekken.tokens) if t}
    for string in strings[::300]:
        state = automaton.start
        *begin, last = (bytes([b]) for b in string.swapcase().encode())
        for byte in begin:
            state = automaton.next(state, ids[byte])
        assert state != DEAD
        assert automaton.next(state, ids[last]) == DEAD


def test_strings_that_are_not_texts() -> None:
    with pytest.raises(ConfigurationError, match="strings is the single text 'ab'; give a list of texts"):
        lk.BannedStrings("ab", AB)
    with pytest.raises(ConfigurationError, match="strings is empty; give at least one text"):
        lk.BannedStrings([], AB)
    with pytest.raises(ConfigurationError, match=r"strings\[1\] is empty, which every text contains; leave it out"):
        lk.BannedStrings(["a", ""], AB)
    with pytest.raises(ConfigurationError, match=r"strings\[0\] is 3 of type int; allowed are str and bytes"):
        lk.BannedStrings([3], AB)  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match=r"strings\[0\] has a lone surrogate at position 1"):
        lk.BannedStrings(["a\ud800"], AB)
    with pytest.raises(ConfigurationError, match="strings is None; give a list of texts"):
        lk.BannedStrings(None, AB)  # type: ignore[arg-type]


def test_case_of_what_has_none() -> None:
    with pytest.raises(
        ConfigurationError, match=r"strings\[0\] is b'a', and bytes have no case; give a str, or ignore_case=False"
    ):
        lk.BannedStrings([b"a"], AB, ignore_case=True)
    with pytest.raises(ConfigurationError, match="ignore_case is 1; allowed are True and False"):
        lk.BannedStrings(["a"], AB, ignore_case=1)  # type: ignore[arg-type]


def test_bounds_and_vocabularies() -> None:
    with pytest.raises(PatternTooLarge, match="more than 8 states"):
        lk.BannedStrings(["abababababab"], AB, limits=lk.Limits(states=8))
    with pytest.raises(ConfigurationError, match="limits is 8"):
        lk.BannedStrings(["a"], AB, limits=8)  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match="no EOS id"):
        lk.BannedStrings(["a"], lk.Vocabulary([b"a"], eos_ids=[]))


def test_equal_bans_share_an_automaton() -> None:
    assert lk.BannedStrings(["a"], AB) == lk.BannedStrings(("a",), AB)
    assert lk.BannedStrings(["a"], AB) != lk.BannedStrings(["a"], AB, ignore_case=True)
    assert lk.BannedStrings(["a", "a"], AB).automaton is lk.BannedStrings(["a"], AB).automaton
    assert torch.equal(
        torch.tensor(after(lk.BannedStrings([b"ab"], AB), [0], LOGITS)),
        torch.tensor(after(lk.BannedStrings(["ab"], AB), [0], LOGITS)),
    )
