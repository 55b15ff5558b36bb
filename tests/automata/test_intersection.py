"""Products of token automata, against pairs of states walked one by one."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.compiler.bytes.occurrences import Occurrences
from logitkit.compiler.language import pattern_dfa
from logitkit.compiler.tokens.compile import token_automaton
from logitkit.compiler.tokens.linking.intersection import intersect
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.vocabulary import Vocabulary
from tests.automata.brute_force import targets_by_table
from tests.examples import examples

PATTERNS = ["[a-c]*", "(ab)*c", "a{3}|b{4}|c", "(a|b)*a(a|b)c?", "(abc|acb|cab)+", "(a|b|c){2,5}"]
BANS = st.lists(st.text("abc", min_size=1, max_size=4).map(str.encode), min_size=1, max_size=5)
WORDS = st.sets(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=7)
Pair = tuple[int, int]


def compiled(given_: str | list[bytes], vocabulary: Vocabulary) -> TokenAutomaton:
    if isinstance(given_, list):
        dfa = Occurrences.of(given_, DEFAULT_LIMITS).without()
    else:
        dfa = pattern_dfa(given_, DEFAULT_LIMITS)
        dfa = replace(dfa, free=np.arange(len(dfa.step)) % 3 == 0)
    return token_automaton(dfa, vocabulary, DEFAULT_LIMITS, "")


def pairs_by_hand(a: TokenAutomaton, b: TokenAutomaton) -> dict[Pair, list[Pair | None]]:
    """Return where each token leads from each pair that is reached: None to death, or to where no end is reached."""
    moves: dict[Pair, list[Pair | None]] = {}
    todo = [(a.start, b.start)]
    while todo:
        pair = todo.pop()
        if pair in moves:
            continue
        both = zip(targets_by_table(a, pair[0]).tolist(), targets_by_table(b, pair[1]).tolist(), strict=True)
        moves[pair] = [(x, y) if x >= FIRST_STATE and y >= FIRST_STATE else None for x, y in both]
        todo += [p for p in moves[pair] if p is not None]
    alive = {(x, y) for x, y in moves if a.accepting[x] and b.accepting[y]}
    while more := {p for p in moves if p not in alive and alive.intersection(q for q in moves[p] if q)}:
        alive |= more
    return {p: [q if q in alive else None for q in row] for p, row in moves.items() if p in alive}


@settings(max_examples=examples(400))
@given(WORDS, st.lists(st.sampled_from(PATTERNS) | BANS, min_size=2, max_size=3))
def test_every_token_of_every_pair(words: set[str], parts: list[str | list[bytes]]) -> None:
    tokens = [None, None, *(w.encode() for w in sorted(words))]
    vocabulary = Vocabulary(tokens, eos_ids=[1])
    try:
        a, b, *rest = (compiled(p, vocabulary) for p in parts)
    except ConfigurationError:
        return
    for c in [*rest, None]:
        expected = pairs_by_hand(a, b)
        both = intersect(a, b, DEFAULT_LIMITS)
        if both is None:
            assert not expected
            return
        todo, state_of = [(a.start, b.start)], {(a.start, b.start): both.start}
        while todo:
            pair = todo.pop()
            state = state_of[pair]
            found = targets_by_table(both, state).tolist()
            ends = a.accepting[pair[0]] and b.accepting[pair[1]]
            assert found[1] == (FINISHED if ends else DEAD)
            for token, target in enumerate(expected[pair]):
                if token == 1:
                    continue
                assert (found[token] == DEAD) == (target is None)
                if target is not None and target not in state_of:
                    state_of[target] = found[token]
                    todo.append(target)
                assert target is None or state_of[target] == found[token]
        if c is not None:
            a, b = both, c


def test_many_bans_beside_a_pattern_stay_small(tekken: Vocabulary) -> None:
    rng = random.Random(1)
    words = [t for t in tekken.tokens if t is not None and 4 <= len(t) <= 9 and t.isalpha() and t.isascii()]
    bans = compiled([b" ".join(rng.choices(words, k=2)) for _ in range(300)], tekken)
    pattern = token_automaton(pattern_dfa(r"(- [^\n]{1,200}\n){1,3}", DEFAULT_LIMITS), tekken, DEFAULT_LIMITS, "")
    text = token_automaton(
        pattern_dfa(r'\{"a": "[^"\n]*", "b": "[^"\n]*"\}', DEFAULT_LIMITS), tekken, DEFAULT_LIMITS, ""
    )
    both = intersect(text, bans, DEFAULT_LIMITS)
    assert both is not None
    assert both.states > 2 * bans.states
    assert both.nbytes < 8 * bans.nbytes
    with pytest.raises(PatternTooLarge, match="more than 100 steps"):
        intersect(pattern, bans, Limits(work=100))
