"""Automata with the rows of one record, repeated, against every token read byte by byte in the automaton of all records."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import FINISHED, FIRST_STATE, ByteDfa
from logitkit.compiler.language import byte_dfa_of
from logitkit.compiler.tokens.records import repeated_record
from logitkit.compiler.tokens.records.repeated_record import record_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.patterns import parse
from logitkit.vocabulary import Vocabulary
from tests import vocabularies
from tests.automata.brute_force import targets_by_bytes, targets_by_table
from tests.examples import of_all

BYTES = [bytes([byte]) for byte in range(256)]
# Tokens that reach over several records, from every place in them.
PIECES = b"ab abc cab bcabc !! a!b! abcab !abc!ab !!!!!!! \n\n x\ny\n \xc3\xa4\xc3 \xa9\xc3\xa4".split(b" ")
EOS = len(BYTES) + len(PIECES)
VOCABULARIES = {
    "tekken": vocabularies.tekken(),
    "sentencepiece_32k": vocabularies.sentencepiece_32k(),
    "bytes and pieces": Vocabulary([*BYTES, *PIECES, None, None], eos_ids=[EOS, EOS + 1], size=300, pad_id=280),
}
RECORDS = {
    "characters": "[ab!]",
    "any line": r"[^\n]\n",
    "one of two": "ab|c",
    "of one length": "abc!",
    "of several lengths": "a?b?(c|!)",
    "capped text": r"[^\n]{1,9}\n",
    "characters of several bytes": "é[ä-ü]|ß",
    "most states go on alike": r"[^\n]\d*\n",
    "JSON": r'\{"id": 7, "name": "[a-z]{1,5}", "ok": (true|false)\}\n',
}


COUNTS = ((0, 6), (1, 200), (7, 9), (95, 95))


def compiled(pattern: str, vocabulary: Vocabulary) -> TokenAutomaton | None:
    return record_automaton(parse(pattern), vocabulary, DEFAULT_LIMITS)


def assert_same(automaton: TokenAutomaton, dfa: ByteDfa, vocabulary: Vocabulary, states: int) -> None:
    """Walk both automata together, in all directions, as far as some states."""
    assert automaton.states == len(dfa.step)
    same, met, chance = {automaton.start: dfa.start}, [automaton.start], random.Random(1)
    for _ in range(states):
        if not met:
            return
        state = met.pop(chance.choice((0, -1)))
        found, expected = targets_by_table(automaton, state), targets_by_bytes(dfa, vocabulary, same[state])
        pairs = np.unique(found * len(dfa.step) + expected)
        for ours, theirs in zip((pairs // len(dfa.step)).tolist(), (pairs % len(dfa.step)).tolist(), strict=True):
            if min(ours, theirs) < FIRST_STATE:
                assert ours == theirs
            elif ours not in same:
                same[ours] = theirs
                met.append(ours)
            assert same.get(ours, theirs) == theirs
    assert len(set(same.values())) == len(same)


@pytest.mark.parametrize("counts", COUNTS, ids=lambda counts: f"{counts[0]} to {counts[1]}")
@pytest.mark.parametrize("record", of_all(RECORDS.values(), 2), ids=of_all(RECORDS, 2))
@pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES.keys())
def test_every_token_in_several_states(record: str, counts: tuple[int, int], vocabulary: Vocabulary) -> None:
    pattern = f"({record}){{{counts[0]},{counts[1]}}}"
    automaton = compiled(pattern, vocabulary)
    assert automaton is not None
    assert_same(automaton, byte_dfa_of(parse(pattern), DEFAULT_LIMITS), vocabulary, 12)


RESTS = {
    "one character": "x",
    "none, or some": "(x[a-z]{0,3})?",
    "as a token goes on": "x(y|!!)",
    "many": r"x+[ab!]*",
}


@pytest.mark.parametrize("counts", [*COUNTS, (0, 4), (3, 4), (1, 30)], ids=lambda counts: f"{counts[0]} to {counts[1]}")
@pytest.mark.parametrize("rest", RESTS.values(), ids=RESTS.keys())
@pytest.mark.parametrize("record", ["ab|c", "a?b?(c|!)", r"[ab!]{1,3}\n", "abc!"])
def test_what_comes_after_the_records(
    record: str, rest: str, counts: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated_record, "LONG_RECORD", 0)
    monkeypatch.setattr(repeated_record, "SHORT_REST", 9)
    vocabulary = VOCABULARIES["bytes and pieces"]
    pattern = f"({record}){{{counts[0]},{counts[1]}}}{rest}"
    automaton = compiled(pattern, vocabulary)
    if automaton is None:
        assert rest == RESTS["many"]
        return
    assert_same(automaton, byte_dfa_of(parse(pattern), DEFAULT_LIMITS), vocabulary, 60)


@pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES.keys())
def test_lines_and_an_answer(vocabulary: Vocabulary) -> None:
    pattern = r"(?:[^\n#]{1,70}\n){1,8}#### -?\d{1,9}"
    automaton = compiled(pattern, vocabulary)
    assert automaton is not None
    assert_same(automaton, byte_dfa_of(parse(pattern), DEFAULT_LIMITS), vocabulary, 60)


@pytest.mark.parametrize("minimum", [0, 1, 39, 40])
def test_all_states(minimum: int) -> None:
    vocabulary = VOCABULARIES["bytes and pieces"]
    pattern = f"(ab|c){{{minimum},40}}"
    automaton = compiled(pattern, vocabulary)
    assert automaton is not None
    assert_same(automaton, byte_dfa_of(parse(pattern), DEFAULT_LIMITS), vocabulary, 200)


@pytest.mark.parametrize("seed", range(40))
def test_random_records(seed: int) -> None:
    chance = random.Random(seed)

    def text(depth: int) -> str:
        kind = chance.randrange(5) if depth else 0
        if kind < 2:
            return "".join(chance.choice(["a", "b", "[ab]", "c", "[^!]", "[à-ü]"]) for _ in range(chance.randint(1, 3)))
        if kind == 2:
            return f"({text(depth - 1)}|{text(depth - 1)})"
        if kind == 3:
            return f"({text(depth - 1)}){chance.choice(['?', '*', '+', '{1,2}'])}"
        return text(depth - 1) + text(depth - 1)

    low = chance.choice([0, 1, 2, 5])
    pattern = f"({text(2)}{chance.choice(['', '!', '!x'])}){{{low},{low + chance.randint(3, 12)}}}"
    automaton = compiled(pattern, VOCABULARIES["bytes and pieces"])
    if automaton is not None:
        assert_same(automaton, byte_dfa_of(parse(pattern), DEFAULT_LIMITS), VOCABULARIES["bytes and pieces"], 40)


@pytest.mark.parametrize(
    "pattern",
    [
        "(ab){1,3}",  # few copies
        "(a|ab){1,90}",  # a record begins with another one
        "(ab)*",  # without end
        "x(ab){1,90}",  # not the whole pattern
        r"(\bab){1,90}",  # an assertion
    ],
)
def test_other_patterns_take_another_way(pattern: str) -> None:
    assert compiled(pattern, VOCABULARIES["bytes and pieces"]) is None


def test_a_vocabulary_that_cannot_spell_every_record_takes_another_way() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
    assert compiled("(ab|c){1,90}", vocabulary) is None
    regex = lk.Regex("(ab|c){1,90}", vocabulary)
    assert regex.automaton.next(regex.automaton.start, 0) >= FIRST_STATE


def test_texts_of_a_regex() -> None:
    vocabulary = VOCABULARIES["bytes and pieces"]
    pattern = "(a?b?(c|!)){3,40}"
    automaton = lk.Regex(pattern, vocabulary).automaton
    chance = random.Random(2)
    for _ in range(200):
        text, state = b"", automaton.start
        for _ in range(chance.randint(0, 30)):
            ids = [i for i, token in enumerate(vocabulary.tokens) if token and automaton.next(state, i) >= FIRST_STATE]
            if not ids:
                break
            token = chance.choice(ids)
            text, state = text + (vocabulary.tokens[token] or b""), automaton.next(state, token)
        assert (automaton.next(state, EOS) == FINISHED) == (re.fullmatch(pattern, text.decode()) is not None)


def test_limits_hold() -> None:
    vocabulary = VOCABULARIES["bytes and pieces"]
    with pytest.raises(PatternTooLarge, match="more than 500 states"):
        lk.Regex("(abc!){1,190}", vocabulary, limits=Limits(states=500))
    with pytest.raises(PatternTooLarge, match="more than 3000 steps"):
        lk.Regex("(abc!){1,9000}", vocabulary, limits=Limits(work=3000))
