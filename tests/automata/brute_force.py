"""The effect of each token, found by reading its bytes one by one: the reference for token automata."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE, ByteDfa
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.compiler.tokens.tables.token_table import STAY
from logitkit.vocabulary import Vocabulary


@lru_cache(maxsize=4)
def _spelled(vocabulary: Vocabulary) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Return the ids that have text, longest first, where the bytes of each begin, and all bytes."""
    ids = sorted((i for i, t in enumerate(vocabulary.tokens) if t), key=lambda i: -len(vocabulary.tokens[i] or b""))
    spelled = [vocabulary.tokens[i] or b"" for i in ids]
    begin = np.cumsum([0, *map(len, spelled)])
    return np.array(ids), begin, np.frombuffer(b"".join(spelled), np.uint8)


def targets_by_bytes(dfa: ByteDfa, vocabulary: Vocabulary, state: int) -> NDArray[np.int64]:
    """Return [V] the state after each token; all tokens read their next byte at once."""
    ids, begin, flat = _spelled(vocabulary)
    length = begin[1:] - begin[:-1]
    now = np.full(len(ids), state)
    for depth in range(int(length[0])):
        reading = slice(int(np.searchsorted(-length, -depth)))
        now[reading] = dfa.step[now[reading], dfa.byte_class[flat[begin[:-1][reading] + depth]]]
    result = np.full(vocabulary.size, DEAD)
    result[ids] = now
    if dfa.accepting[state]:
        result[list(vocabulary.eos_ids)] = FINISHED
    return result


def targets_by_table(automaton: TokenAutomaton, state: int) -> NDArray[np.int64]:
    """Return [V] the state after each token as the token automaton's table has it."""
    assert state >= FIRST_STATE
    by_class = np.where(automaton.default == STAY, state, automaton.default).astype(np.int64)
    for at in reversed(automaton.chain(state)):
        row = slice(int(automaton.row_start[at]), int(automaton.row_start[at + 1]))
        assert np.all(np.diff(automaton.row_class[row].astype(np.int64)) > 0), "a row is not in ascending order"
        by_class[automaton.row_class[row]] = automaton.row_target[row]
    targets: NDArray[np.int64] = by_class[automaton.class_of]
    return targets
