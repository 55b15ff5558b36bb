"""Where tokens lead in texts of a limited number of tokens: one layer of states for each number of tokens.

`compiler.nested_grammars.token_limits` has the states. The columns of classes say what a token does after the first token of the
text, in layer 1. In layer `n`, a token does the same, but if it stays in the text, it leads to layer `n + 1`, and in the last
layer it is dead. A fresh state, in which no token of the text has ended, does the same as its state in layer 1 does in layer 0:
a token that stays in the text leads to layer 1.

By hand, for at most 3 tokens up to a full stop, with the fresh state 2, its copy 11 in layer 1, the states 12 and 13 in layers
2 and 3, and the end 3: the column of `a` has the entry 11 -> 11, and becomes 2 -> 11, 11 -> 12 and 12 -> 13. From 13, `a` is
dead. The column of the full stop has 11 -> 3, and becomes 2 -> 3, 11 -> 3, 12 -> 3 and 13 -> 3.

Invariants: the default of each column is dead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.nested_dfa import TokenLimit
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, starts
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["in_layers"]

# This many entries of a table take as long as one other step.
ENTRIES_A_STEP = 3


def in_layers(
    transitions: TransitionColumns, token_limits: tuple[TokenLimit, ...], states: int, limits: Limits
) -> TransitionColumns:
    """Return the columns of classes with the entries of all layers.

    Args:
        transitions: The columns. Entries of fresh states in them do not count, and those of layers after the first one are
            missing.
        token_limits: The texts.
        states: The number of states.
        limits: Bounds on the work.

    Raises:
        PatternTooLarge: There are too many layers.
    """
    for limit in token_limits:
        transitions = _in_layers(transitions, limit, states, limits)
    return transitions


def _in_layers(transitions: TransitionColumns, limit: TokenLimit, states: int, limits: Limits) -> TransitionColumns:
    size, most = len(limit.later), limit.most
    owner = np.repeat(np.arange(len(transitions)), np.diff(transitions.start))
    source, target = transitions.source.astype(np.int64), transitions.target.astype(np.int64)
    local = np.full(states, -1)
    local[limit.later] = np.arange(size)
    fresh = np.zeros(states, bool)
    fresh[limit.fresh] = True
    mine = local[source] >= 0
    limits.check_work(int(mine.sum()) * most // ENTRIES_A_STEP)
    kept = ~mine & ~fresh[source]
    symbol, at, leads = owner[mine], local[source[mine]], target[mine]
    inside = np.full(len(leads), -1)
    inside[leads < states] = local[leads[leads < states]]
    # All entries of layer 1 once for each layer: [layers, entries].
    layer = np.arange(1, most + 1)[:, None]
    states_of = _state(limit, layer, at, size)
    goes_to = np.where(inside < 0, leads, _state(limit, layer + 1, inside, size))
    alive = (inside < 0) | (layer < most)
    symbols = np.broadcast_to(symbol, alive.shape)
    # The entries of fresh states are those of their states in layer 1, without a change of target.
    of_state = np.argsort(at, kind="stable")
    bounds = np.searchsorted(at[of_state], np.arange(size + 1))
    place, which = expand(bounds[limit.later_of_fresh], bounds[limit.later_of_fresh + 1] - bounds[limit.later_of_fresh])
    place = of_state[place]
    columns = [
        (owner[kept], source[kept], target[kept]),
        (symbol[place], limit.fresh[which], leads[place]),
        (symbols[alive], states_of[alive], goes_to[alive]),
    ]
    owner, source, target = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(owner, kind="stable")
    begin = starts(np.bincount(owner, minlength=len(transitions)))
    return TransitionColumns(transitions.default, begin, _narrow(source[order]), _narrow(target[order]))


def _state(limit: TokenLimit, layer: NDArray[np.int64], local: Ints, size: int) -> NDArray[np.int64]:
    """Return the states of layers, given their places in a layer; all layers after the first one stand in a row."""
    later: NDArray[np.int64] = limit.later[local]
    return np.where(layer == 1, later, limit.first + (layer - 2) * size + local)


def _narrow(numbers: NDArray[np.int64]) -> Ints:
    return numbers.astype(np.int32)
