"""The automaton of what two automata both allow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.automata.behaviours import Behaviours, merge, starts
from logitkit.automata.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.automata.dead_ends import without_dead_ends
from logitkit.automata.limits import Limits
from logitkit.automata.token_automaton import STAY, TokenAutomaton


def intersect(a: TokenAutomaton, b: TokenAutomaton, limits: Limits) -> TokenAutomaton | None:
    """Build the product of two automata over one vocabulary; it has no dead ends, as their masks together would have.

    Args:
        a: One automaton.
        b: The other, with the same EOS and pad ids.
        limits: Bounds on the product.

    Returns:
        The automaton, or None if no sequence of tokens is allowed by both.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    limits.check_work(a.states * a.classes // 4 + b.states * b.classes // 4)
    both, class_of = np.unique(a.class_of.astype(np.int64) * b.classes + b.class_of, return_inverse=True)
    rows_a, rows_b = dense(a)[:, both // b.classes], dense(b)[:, both % b.classes]
    known = np.array([DEAD, FINISHED, a.start * b.states + b.start])
    # Breadth-first; a pair of states is one number, and DEAD and FINISHED stand for themselves.
    targets = [np.zeros((FIRST_STATE, len(both)), np.int64)]
    frontier = known[FIRST_STATE:]
    while len(frontier):
        in_a, in_b = rows_a[frontier // b.states], rows_b[frontier % b.states]
        live = (in_a >= FIRST_STATE) & (in_b >= FIRST_STATE)
        ended = (in_a == FINISHED) & (in_b == FINISHED)
        reached = np.where(live, in_a * b.states + in_b, np.where(ended, FINISHED, DEAD))
        targets.append(reached)
        frontier = np.setdiff1d(reached[live], known)
        known = np.concatenate([known, frontier])
        limits.check_states(len(known))
        limits.check_work(len(known) * len(both) // 4)
    order = np.argsort(known)
    table = order[np.searchsorted(known[order], np.concatenate(targets))]
    accepting = np.zeros(len(known), bool)
    accepting[FIRST_STATE:] = a.accepting[known[FIRST_STATE:] // b.states] & b.accepting[known[FIRST_STATE:] % b.states]
    behaviours, alive = without_dead_ends(_by_class(table), accepting)
    if not alive[FIRST_STATE]:
        return None
    behaviours, number = merge(behaviours)
    return TokenAutomaton.of(number[class_of.ravel()], behaviours, accepting, FIRST_STATE, a.eos_ids, a.pad_id)


def dense(automaton: TokenAutomaton) -> NDArray[np.int64]:
    """Return the target of every state under every class: [S, C]; the rows of dead and finished are dead."""
    own = np.arange(automaton.states)[:, None]
    table = np.where(automaton.default == STAY, own, automaton.default).astype(np.int64)
    count = automaton.row_start[1:] - automaton.row_start[:-1]
    # A state that falls back stands behind the one that it falls back to, which has its row by then.
    for state in range(FIRST_STATE, automaton.states) if automaton.fallback is not None else ():
        below = int(automaton.fallback[state])  # type: ignore[index]
        if below != state:
            table[state] = table[below]
        row = slice(int(automaton.row_start[state]), int(automaton.row_start[state + 1]))
        table[state, automaton.row_class[row]] = automaton.row_target[row]
    if automaton.fallback is None:
        table[np.repeat(own.ravel(), count), automaton.row_class] = automaton.row_target
    table[:FIRST_STATE] = DEAD
    return table


def _by_class(table: NDArray[np.int64]) -> Behaviours:
    """Turn [S, C] targets into behaviours whose default is death; finished is no target of a text's token."""
    columns = np.where(table == FINISHED, DEAD, table)[FIRST_STATE:].T
    owner, source = np.nonzero(columns != DEAD)
    return Behaviours(
        np.zeros(len(columns), np.int64),
        starts(np.bincount(owner, minlength=len(columns))),
        source + FIRST_STATE,
        np.ascontiguousarray(columns)[owner, source],
    )
