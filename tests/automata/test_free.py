"""Free sections: states in which ids without text are legal and change nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.compiler.bytes.occurrences import Occurrences
from logitkit.compiler.language import pattern_dfa
from logitkit.compiler.tokens.compile import token_automaton
from logitkit.limits import DEFAULT_LIMITS
from logitkit.runtime.automaton_registry import AutomatonRegistry
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.device_rows import mask_on_device
from logitkit.runtime.registry_tables import advance_tensors
from tests.automata.brute_force import targets_by_bytes, targets_by_table
from tests.automata.host_path import advance_rows, mask_on_host
from tests.automata.moore import live
from tests.examples import examples

# Ids 0, 1 and 2 have no text, nor has the column after the tokens; EOS has none either, but counts separately.
PIECES = st.sets(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=6)
PATTERNS = ["[a-c]*", "(ab)*c", "a{3}|b{4}|c", "(a|b)*a(a|b)c?", "(abc|acb|cab)+"]


def small(words: set[str]) -> lk.Vocabulary:
    tokens = [None, None, None, *(w.encode() for w in sorted(words))]
    return lk.Vocabulary(tokens, eos_ids=[1], size=len(tokens) + 1, pad_id=2)


@settings(max_examples=examples(300))
@given(st.sampled_from(PATTERNS), PIECES, st.data())
def test_any_states_may_be_free(pattern: str, words: set[str], data: st.DataObject) -> None:
    vocabulary = small(words)
    dfa = pattern_dfa(pattern, DEFAULT_LIMITS)
    count = len(dfa.step)
    free = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    moves = np.array([targets_by_bytes(dfa, vocabulary, s) for s in range(count)])
    moves[[DEAD, FINISHED]] = DEAD
    alive = live(np.where(moves == FINISHED, DEAD, moves), dfa.accepting)
    if not alive[dfa.start]:
        return
    automaton = token_automaton(replace(dfa, free=free), vocabulary, DEFAULT_LIMITS, pattern)
    for state in np.flatnonzero(alive[FIRST_STATE:]) + FIRST_STATE:
        expected = np.where(alive[moves[state]] | (moves[state] == FINISHED), moves[state], DEAD)
        expected[[0, 2, vocabulary.size - 1]] = state if free[state] else DEAD
        assert np.array_equal(targets_by_table(automaton, int(state)), expected)
        assert [automaton.next(int(state), t) for t in range(vocabulary.size)] == expected.tolist()


def test_both_paths_agree_with_fallbacks_too() -> None:
    vocabulary = small({"a", "b", "c", "ab", "cab"})
    bans = Occurrences.of([b"abca", b"bb"], DEFAULT_LIMITS).without()
    pattern = pattern_dfa("(ab)*c", DEFAULT_LIMITS)
    some = np.arange(len(pattern.step)) % 2 == 0
    registry = AutomatonRegistry()
    handles = [
        registry.register(token_automaton(replace(dfa, free=free), vocabulary, DEFAULT_LIMITS, ""))
        for dfa, free in ((bans, np.ones(len(bans.step), bool)), (pattern, some))
    ]
    pairs = [(handle, s) for handle in handles for s in range(handle.automaton.states)]
    state = AutomatonState(
        *(torch.tensor(column) for column in zip(*((le.slot, le.generation, s) for le, s in pairs), strict=True))
    )
    for token in range(vocabulary.size):
        tokens = torch.full((len(pairs),), token)
        assert torch.equal(advance_tensors(registry.tables, *state, tokens), advance_rows(registry, state, tokens))
    for token in (0, 2, vocabulary.size - 1):
        after = advance_rows(registry, state, torch.full((len(pairs),), token)).tolist()
        for (handle, before), now in zip(pairs, after, strict=True):
            free = before <= FINISHED or handle is handles[0] or some[before]
            assert now == (before if free else DEAD)
    logits = torch.randn(len(pairs), vocabulary.size)
    assert torch.equal(
        mask_on_device(registry.layout_on(logits.device), state.positions, logits.clone()),
        mask_on_host(registry, state, logits.clone()),
    )
