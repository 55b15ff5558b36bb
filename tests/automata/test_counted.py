"""An automaton made by copying a record is the same as one made from its positions, number for number."""

from __future__ import annotations

import random
from unittest import mock

import pytest

from logitkit.compiler import language
from logitkit.compiler.characters.counted import is_counted
from logitkit.errors import PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.patterns import parse

RECORDS = (
    "a",
    "a|bc",
    "[ab]c",
    r"id: [0-9]+, (true|false)\n",
    r'\{"name": "[a-z]{1,5}"\}',
    "x[0-9]{2}|y",
    "a(bc)*d",
    "b[^,]*,",
    "é[ä-ü]|ß",
    "(ab|b){2,3}c",
)
COUNTS = ((0, 9), (1, 4), (1, 30), (2, 6), (7, 7))


def both(pattern: str) -> list[tuple[object, object]]:
    found: list[tuple[object, object]] = []
    for answer in (is_counted, lambda tree: False):
        with mock.patch.object(language, "is_counted", answer):
            dfa, alphabet = language.symbol_dfa_of(parse(pattern), DEFAULT_LIMITS)
        assert dfa is not None
        found.append(((dfa.moves, dfa.accepting), (alphabet.bounds.tolist(), alphabet.symbols.tolist())))
    return found


def is_copied(pattern: str) -> bool:
    return language._counted_dfa(parse(pattern), DEFAULT_LIMITS) is not None


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("record", RECORDS)
def test_a_record_is_copied(record: str, counts: tuple[int, int]) -> None:
    pattern = f"({record}){{{counts[0]},{counts[1]}}}"
    assert is_copied(pattern)
    copied, positions = both(pattern)
    assert copied == positions


@pytest.mark.parametrize("record", ["a+", "a?", "", "a|ab", "[^,]*,", "(bc)*ac", "(a|b)*c"])
def test_a_record_that_another_begins_is_not(record: str) -> None:
    assert not is_copied(f"({record}){{1,9}}")
    copied, positions = both(f"({record}){{1,9}}")
    assert copied == positions


@pytest.mark.parametrize("seed", range(60))
def test_random_records(seed: int) -> None:
    chance = random.Random(seed)

    def text(depth: int) -> str:
        kind = chance.randrange(5) if depth else 0
        if kind < 2:
            return "".join(chance.choice(["a", "b", "[ab]", "c"]) for _ in range(chance.randint(1, 3)))
        if kind == 2:
            return f"({text(depth - 1)}|{text(depth - 1)})"
        if kind == 3:
            return f"({text(depth - 1)}){chance.choice(['?', '*', '+', '{1,2}'])}"
        return text(depth - 1) + text(depth - 1)

    low = chance.randint(0, 3)
    copied, positions = both(f"({text(3)}{chance.choice(['', '!', '!'])}){{{low},{low + chance.randint(3, 9)}}}")
    assert copied == positions


def test_limits_hold() -> None:
    with pytest.raises(PatternTooLarge, match="more than 50 states"):
        language.symbol_dfa_of(parse("(abc!){1,90}"), Limits(states=50))
    with pytest.raises(PatternTooLarge, match="more than 1000 steps"):
        language.symbol_dfa_of(parse("(abc!){1,90}"), Limits(work=1000))
