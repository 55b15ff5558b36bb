"""Runs of positions: fewer states, moves worked out once, and the same language."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.compiler.characters import runs
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.positions import Positions, positions_of
from logitkit.compiler.characters.runs import Runs
from logitkit.compiler.characters.subset import SymbolDfa, determinise
from logitkit.limits import DEFAULT_LIMITS
from logitkit.patterns import parse
from logitkit.patterns.charset import CharSet
from tests.examples import examples

PIECES = ["a", "b", "[ab]", "(?:ab)", "(?:a|bc)", "[abc]", "(?:[ab]{1,4}c)", "(?:a{0,3}b?)"]
SUFFIXES = ["", "*", "+", "?", "{1,3}", "{1,5}", "{0,4}", "{2,6}"]


def _found(pattern: str) -> Runs:
    positions = positions_of(parse(pattern), DEFAULT_LIMITS)
    masks = Alphabet.of(positions.charsets).members
    return Runs.of(positions, [masks[c] for c in positions.charsets])


def _automaton(pattern: str) -> SymbolDfa:
    positions = positions_of(parse(pattern), DEFAULT_LIMITS)
    masks = Alphabet.of(positions.charsets).members
    return determinise(positions, [masks[c] for c in positions.charsets], DEFAULT_LIMITS)


def _minimal(pattern: str) -> tuple[list[dict[int, int]], list[bool]] | None:
    found = minimise(_automaton(pattern), DEFAULT_LIMITS)
    return None if found is None else (found.moves, found.accepting)


def test_only_positions_that_may_be_the_last_are_a_run() -> None:
    # Position 0 is x. Of [ab]{3,12}, the first two must be followed by another one.
    assert _found("x[ab]{3,12};").first == dict.fromkeys(range(3, 13), 3)
    assert _found("x[ab]{12};").first == {}
    # A comma may be followed by any of the copies, but only the first of them is entered from outside.
    assert _found("(?:[ab]{1,9},)*").first == dict.fromkeys(range(9), 0)


def test_of_a_run_only_the_first_counts() -> None:
    found = _found("x[ab]{3,12};")
    assert found.earliest((0, 4, 7, 12, 13)) == (0, 4, 13)
    assert found.earliest((2, 3)) == (2, 3)
    assert found.only_one((0, 4, 13)) == 4
    # It is the last of the run, or there are several.
    assert found.only_one((0, 12, 13)) is None
    assert found.only_one((4, 7)) is None


def test_a_position_that_others_lead_to_begins_a_run() -> None:
    # Positions 0 to 19 read `a`, each followed by the next one or by the end; position 20 reads `b`, and leads into their midst.
    charsets = [CharSet.single(ord("a"))] * 20 + [CharSet.single(ord("b"))]
    follow = [*((n + 1,) for n in range(19)), (), (0, 10)]
    positions = Positions(charsets, follow, (20,), [True] * 20 + [False], False)
    assert Runs.of(positions, [1] * 20 + [2]).first == dict.fromkeys(range(10, 20), 10)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(SUFFIXES)), min_size=1, max_size=5))
def test_runs_change_no_language(parts: list[tuple[str, str]]) -> None:
    pattern = "".join(piece + suffix for piece, suffix in parts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runs, "LONG_RUN", 10**9)
        expected = _minimal(pattern)
        patched.setattr(runs, "LONG_RUN", 2)
        assert _minimal(pattern) == expected, pattern


def test_states_do_not_hold_several_positions_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = r"(?:bb)?[ab.]{1,60}\.[a]{1,6}c"
    lean = len(_automaton(pattern).moves)
    monkeypatch.setattr(runs, "LONG_RUN", 10**9)
    assert lean < 0.6 * len(_automaton(pattern).moves)
