r"""A pattern whose characters are called has the same texts and the same masks as one that has states for each of them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.in_utf8 import to_bytes
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.utf8_subroutines import utf8_subroutines
from logitkit.compiler.language import symbol_dfa_of
from logitkit.compiler.tokens.compile import pushdown_automaton, token_automaton
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.patterns import parse
from logitkit.runtime.walk import Walk
from tests.patterns.strategies import patterns, texts_for

# Places that lead to one other, to several by kind of character, and from which some characters beyond ASCII lead nowhere.
PATTERNS = (
    r"\w{1,4}@\w{1,3}(\.\w{1,3}){1,2}",
    "[à-ö]{1,3}é*x",
    "(a|é|日|😀)+(b|ß){2}",
    r"(?:[^\n,]{1,5},){1,3}\d+",
    "[а-яё]+(?: [а-яё]+){0,3}!?",
    "(日本|日曜|😀😁|é[日x])*",
)

# Every byte, and tokens that begin and end inside of characters.
PIECES = lk.Vocabulary(
    [
        *(bytes([byte]) for byte in range(256)),
        *(
            "é日".encode(),
            "日本".encode(),
            "😀".encode(),
            b"ab",
            "é,".encode(),
            " я".encode(),
            "日曜@日".encode(),
        ),
        *(
            b"\xa9",
            b"\xa9x",
            b"\xc3\xa9\xc3",
            b"\xe6\x97",
            b"\x97\xa5",
            b"\xa5\xe6\x9c\xac",
            b"\xf0\x9f",
            b"\x98\x80\xf0\x9f\x98",
        ),
        *(b"a\xc3", b"b\xd1\x8f\xd1", b"\x8f\xd1\x8f", b".\xe6", b"\xa5", b"\xa5\xa5", b"\x80\x80", b"1\xd9\xa1"),
        None,
    ],
    eos_ids=[275],
)


def both(pattern: str) -> tuple[ByteDfa, NestedDfa | None]:
    """Return the automata of a pattern, without calls and with them."""
    dfa, alphabet = symbol_dfa_of(parse(pattern), DEFAULT_LIMITS, pattern)
    called = None if dfa is None else utf8_subroutines(dfa, alphabet, DEFAULT_LIMITS)
    return to_bytes(dfa, alphabet, DEFAULT_LIMITS), called


def beginnings(dfa: ByteDfa, text: bytes) -> Iterator[bool]:
    """For each beginning of a text that can be completed, yield whether it is complete."""
    state = dfa.start
    yield bool(dfa.accepting[state])
    for byte in text:
        state = int(dfa.step[state, dfa.byte_class[byte]])
        if not state:
            return
        yield bool(dfa.accepting[state])


@given(st.data())
def test_the_same_texts_and_beginnings(data: st.DataObject) -> None:
    pattern = data.draw(st.one_of(st.sampled_from(PATTERNS), patterns(atomic=False, depth=2)))
    dfa, called = both(pattern)
    if called is None:
        return
    text = data.draw(texts_for(pattern)).encode("utf-8", "surrogatepass")
    cut = data.draw(st.integers(0, len(text)))
    text = text[:cut] + data.draw(st.binary(max_size=2)) + text[cut:]
    assert [*called.endings(text)] == [*beginnings(dfa, text)]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_same_masks(pattern: str) -> None:
    dfa, called = both(pattern)
    assert called is not None
    assert called.frames == called.blocks > 0
    flat = token_automaton(dfa, PIECES, DEFAULT_LIMITS, "it")
    made = pushdown_automaton(called, PIECES, DEFAULT_LIMITS, "it")
    chance, met = random.Random(pattern), set()
    for _ in range(60):
        one, other = Walk.start(flat), Walk.start(made)
        for _ in range(40):
            legal = one.legal()[flat.class_of]
            np.testing.assert_array_equal(legal, other.legal()[made.class_of])
            met.add(one.key)
            ids = np.flatnonzero(legal)
            if (token := int(chance.choice(ids))) in PIECES.eos_ids:
                break
            one, other = one.after(token), other.after(token)
    # Of most kinds of states, those inside of characters included.
    assert len(met) > len(called.step) // 8


ADDRESS = r"\w{1,64}@\w{1,63}(\.\w{1,63}){1,3}"


def test_a_pattern_with_too_many_states_calls_its_characters(tekken: lk.Vocabulary) -> None:
    regex = lk.Regex(ADDRESS, tekken)
    assert regex.automaton.states < 1000
    assert regex.automaton.nbytes < 2**20
    assert not regex.is_finite
    texts = (
        "я" * 64 + "@пример.рф",
        "я" * 65 + "@b.c",
        "a@b",
        "a@b.c",
        "a@b.c.d.e",
        "a@b.c.d.e.f",
        "日本@例え.テスト",
        "a@b.é",
    )
    for text in (*texts, "a@" + "b" * 63 + ".c", "a@" + "b" * 64 + ".c", "a@b." + "é" * 63, "a@b." + "é" * 64):
        assert regex.matches(text) == bool(re.fullmatch(ADDRESS, text)), text
    assert all(re.fullmatch(ADDRESS, regex.example(seed)) for seed in range(5))


def test_it_may_stand_after_a_marker_and_in_a_batch_with_schemas(tekken: lk.Vocabulary) -> None:
    regex = lk.Regex(ADDRESS, tekken)
    after = lk.then(lk.Regex("[a-z ]*", tekken), regex, "=")
    assert after.matches("address=я@пример.рф")
    assert not after.matches("address=я@пример")
    assert regex.registry is lk.JsonSchema({}, tekken).registry
    with pytest.raises(ConfigurationError, match="too large without a stack, so it can only come last"):
        lk.then(regex, lk.Regex("a", tekken), "=")
    with pytest.raises(PatternTooLarge, match="more than 50000 states"):
        _ = regex.flat_automaton


def test_in_a_chain_it_masks_by_itself(tekken: lk.Vocabulary) -> None:
    regex, ban = lk.Regex(ADDRESS, tekken), lk.BannedStrings(["@b"], tekken)
    chain = lk.chain(regex, ban)
    assert regex in chain.processors
    with pytest.raises(ConfigurationError, match="too large without a stack; put the constraints in a chain"):
        lk.Intersection((regex, ban))
    context = lk.Context.of([[]], vocabulary_size=tekken.size)
    ids = [int(tekken.trie.tokens_at(bytes([byte]))[0][1]) for byte in b"a@bc"]
    state = chain.advance(chain.init_state(context), torch.tensor([ids[:2]]))
    allowed = chain.process_logits(state, torch.zeros(1, tekken.size), context)[1][0].isfinite()
    assert not allowed[ids[2]]
    assert allowed[ids[3]]


def test_it_is_refused_as_before_where_bytes_are_missing() -> None:
    # Whether a character can be completed depends on where it stands, then.
    few = lk.Vocabulary([*(bytes([b]) for b in range(255) if b != 0xA9), None], eos_ids=[254])
    limits = Limits(states=10_000)
    assert lk.Regex(r"\w{1,100}", PIECES, limits=limits).automaton.has_stacks
    with pytest.raises(PatternTooLarge, match="more than 10000 states"):
        lk.Regex(r"\w{1,100}", few, limits=limits)


def test_what_calls_do_not_help_is_refused_as_before(tekken: lk.Vocabulary) -> None:
    with pytest.raises(PatternTooLarge, match="more than 50000 states"):
        lk.Regex(".{1,1000};.{1,1000}", tekken)
    with pytest.raises(PatternTooLarge, match="more than 50000 states"):
        lk.Regex(r"\w{1,2000}@", tekken)
