"""Minimisation as in the textbook, and comparison of automata: what the compiler's stages are checked against.

An automaton is a matrix `step` [S, K] of targets and a vector `accepting` [S]; the first state is the start.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.characters.subset import SymbolDfa

Step = NDArray[np.int64]
Accepting = NDArray[np.bool_]


def moore(step: Step, accepting: Accepting) -> NDArray[np.int64]:
    """Return the block of each state: two states share one exactly if they accept the same texts."""
    block = accepting.astype(np.int64)
    count = len(np.unique(block))
    while True:
        block = np.unique(np.column_stack([block, block[step]]), axis=0, return_inverse=True)[1].ravel()
        if block.max() + 1 == count:
            return block
        count = int(block.max()) + 1


def reachable(step: Step, start: int) -> NDArray[np.bool_]:
    """Return which states some text leads to."""
    found = np.zeros(len(step), bool)
    found[start] = True
    while True:
        after = found.copy()
        after[step[found].ravel()] = True
        if np.array_equal(after, found):
            return found
        found = after


def live(step: Step, accepting: Accepting) -> NDArray[np.bool_]:
    """Return from which states some text is accepted."""
    found = accepting.copy()
    while True:
        after = found | found[step].any(axis=1)
        if np.array_equal(after, found):
            return found
        found = after


def matrix(dfa: SymbolDfa, symbols: int) -> tuple[Step, Accepting]:
    """Write a symbol automaton as a matrix, with its dead state written out after the others."""
    count = len(dfa.moves)
    step = np.full((count + 1, symbols), count)
    for source, row in enumerate(dfa.moves):
        for target, mask in row.items():
            for symbol in range(symbols):
                if mask >> symbol & 1:
                    assert step[source, symbol] == count, "two targets for one symbol"
                    step[source, symbol] = target
    return step, np.array([*dfa.accepting, False])


def byte_class_matrix(dfa: ByteDfa) -> tuple[Step, Accepting]:
    """Return a byte automaton as a matrix of one column for each class of bytes that occurs."""
    return dfa.step[:, np.unique(dfa.byte_class)].astype(np.int64), dfa.accepting


def same_language(a: tuple[Step, Accepting], a_start: int, b: tuple[Step, Accepting], b_start: int) -> bool:
    """Walk two automata over one alphabet side by side; they differ if some reached pair accepts differently."""
    (step_a, accepting_a), (step_b, accepting_b) = a, b
    seen = {(a_start, b_start)}
    todo = [(a_start, b_start)]
    while todo:
        p, q = todo.pop()
        if accepting_a[p] != accepting_b[q]:
            return False
        fresh = set(zip(step_a[p].tolist(), step_b[q].tolist(), strict=True)) - seen
        seen |= fresh
        todo.extend(fresh)
    return True
