"""Remove the states from which the vocabulary cannot complete the language."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.automata.behaviours import Behaviours, starts
from logitkit.automata.byte_dfa import DEAD
from logitkit.automata.token_automaton import STAY


def without_dead_ends(table: Behaviours, accepting: NDArray[np.bool_]) -> tuple[Behaviours, NDArray[np.bool_]]:
    """Send to death every token after which no tokens lead to an accepting state.

    Needed where the tokens cannot spell every text (a vocabulary without some byte, an automaton over token ids): a row that took
    such a token would find nothing legal later.

    Args:
        table: The behaviour of every class.
        accepting: [S] bool.

    Returns:
        The behaviours without such moves, and [S] bool: the states from which an accepting state is reached.
    """
    owner = np.repeat(np.arange(len(table)), table.start[1:] - table.start[:-1])
    defaults = np.flatnonzero((table.default != DEAD) & (table.default != STAY))
    alive = accepting.copy()
    while True:
        reached = alive.copy()
        reached[table.source[alive[table.target]]] = True
        for c in defaults[alive[table.default[defaults]]].tolist():
            listed = np.zeros(len(alive), bool)
            listed[table.source[table.start[c] : table.start[c + 1]]] = True
            reached |= ~listed
        reached[DEAD] = False
        if np.array_equal(reached, alive):
            break
        alive = reached
    target = np.where(alive[table.target], table.target, DEAD)
    default = table.default.copy()
    default[defaults[~alive[default[defaults]]]] = DEAD
    keep = target != default[owner]
    count = np.bincount(owner[keep], minlength=len(table))
    return Behaviours(default, starts(count), table.source[keep], target[keep]), alive
