"""Remove the states from which the vocabulary cannot complete the language."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.automata.behaviours import Behaviours, starts
from logitkit.automata.byte_dfa import DEAD, ByteDfa
from logitkit.automata.ranges import expand
from logitkit.automata.token_automaton import STAY


def may_have_dead_ends(dfa: ByteDfa, single_bytes: NDArray[np.bool_]) -> bool:
    """Whether some state may be left without a way to the end.

    It is not where each class of bytes has a byte that is a token by itself: the text can then be completed byte by byte.

    Args:
        dfa: The automaton; an accepting state can be reached from each of its states.
        single_bytes: [256] which bytes are tokens by themselves.
    """
    spelled = np.zeros(dfa.step.shape[1], bool)
    spelled[0] = not dfa.step[:, 0].any()
    spelled[dfa.byte_class[single_bytes]] = True
    return not spelled.all()


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
    states = len(accepting)
    owner = np.repeat(np.arange(len(table)), table.start[1:] - table.start[:-1])
    defaults = np.flatnonzero((table.default != DEAD) & (table.default != STAY))
    # Backwards from the accepting states, each exception and each default looked at once.
    order = np.argsort(table.target, kind="stable")
    source = table.source[order]
    first = starts(np.bincount(table.target, minlength=states))
    alive = accepting.copy()
    fresh = np.flatnonzero(alive)
    while len(fresh):
        place, _ = expand(first[fresh], first[fresh + 1] - first[fresh])
        reached = np.zeros(states, bool)
        reached[source[place]] = True
        leads = np.isin(table.default[defaults], fresh)
        for c in defaults[leads].tolist():
            unlisted = np.ones(states, bool)
            unlisted[table.source[table.start[c] : table.start[c + 1]]] = False
            reached |= unlisted
        defaults = defaults[~leads]
        reached[DEAD] = False
        fresh = np.flatnonzero(reached & ~alive)
        alive[fresh] = True
    target = np.where(alive[table.target], table.target, DEAD)
    default = table.default.copy()
    falling = (default != STAY) & ~alive[default]
    default[falling] = DEAD
    keep = target != default[owner]
    count = np.bincount(owner[keep], minlength=len(table))
    return Behaviours(default, starts(count), table.source[keep], target[keep]), alive
