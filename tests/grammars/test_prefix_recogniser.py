"""The recogniser of beginnings against listed texts, and against the matcher of whole texts."""

from __future__ import annotations

import itertools

import pytest

from logitkit.grammars.gbnf import read_gbnf
from tests.grammars.prefix_recogniser import PrefixRecogniser
from tests.grammars.rule_matcher import matches

GRAMMARS = {
    "left recursion": 'root ::= root "b" | "a"',
    "right recursion": 'root ::= "a" root | "b"',
    "centre recursion": 'root ::= "a" root "b" | ""',
    "ambiguous": 'root ::= root root | "a" | "b"?',
    "nullable left edge": 'root ::= x root "b" | "a"\nx ::= "a"?',
    "cycle": 'root ::= x | "a"\nx ::= root | "b" x',
    "counts": 'root ::= ("a" | "bb"){2,3} "b"*',
    "palindromes": 'root ::= "a" root "a" | "b" root "b" | "a"? | "b"',
}
TEXTS = ["".join(letters) for size in range(6) for letters in itertools.product("ab", repeat=size)]


@pytest.mark.parametrize("text", GRAMMARS.values(), ids=list(GRAMMARS))
def test_it_agrees_with_the_matcher_on_whole_texts(text: str) -> None:
    grammar = read_gbnf(text)
    recogniser = PrefixRecogniser(grammar)
    legal = [candidate for candidate in TEXTS if matches(grammar, candidate)]
    assert [candidate for candidate in TEXTS if recogniser.accepts(candidate.encode())] == legal
    # Every beginning of length 2 or less of a legal text, and no other, begins one that is at most three longer.
    for beginning in (candidate for candidate in TEXTS if len(candidate) <= 2):
        assert recogniser.begins(beginning.encode()) == any(found.startswith(beginning) for found in legal), beginning


def test_half_a_character_begins_a_text() -> None:
    recogniser = PrefixRecogniser(read_gbnf('root ::= "é" [^a]'))
    assert recogniser.begins(b"\xc3")
    assert not recogniser.begins(b"\xc3\xa8")
    assert recogniser.accepts("éè".encode())
    assert not recogniser.accepts(b"\xc3\xa9a")
