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

from logitkit.compiler.bytes.nested_dfa import TokenLimit
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, TransitionEntries, starts
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
    entries = TransitionEntries.of(transitions)
    source = entries.source
    # The place of each state in layer 1; -1 for all other states.
    local = np.full(states, -1)
    local[limit.later] = np.arange(len(limit.later))
    fresh = np.zeros(states, bool)
    fresh[limit.fresh] = True
    in_layer = local[source] >= 0
    limits.check_work(int(in_layer.sum()) * limit.most // ENTRIES_A_STEP)
    first = entries.take(in_layer)
    parts = [entries.take(~in_layer & ~fresh[source]), _of_fresh(limit, first, local), _of_layers(limit, first, local)]
    owner, source, target = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(owner, kind="stable")
    begin = starts(np.bincount(owner, minlength=len(transitions)))
    return TransitionColumns(transitions.default, begin, source[order].astype(np.int32), target[order].astype(np.int32))


def _of_fresh(limit: TokenLimit, first: TransitionEntries, local: Ints) -> TransitionEntries:
    """Return the entries of fresh states: those of their states in layer 1, with the same targets."""
    place = local[first.source]
    order = np.argsort(place, kind="stable")
    begin = np.searchsorted(place[order], np.arange(len(limit.later) + 1))
    same = limit.later_of_fresh
    at, which = expand(begin[same], begin[same + 1] - begin[same])
    copied = first.take(order[at])
    return TransitionEntries(copied.owner, limit.fresh[which], copied.target)


def _of_layers(limit: TokenLimit, first: TransitionEntries, local: Ints) -> TransitionEntries:
    """Return the entries of all layers, given those of layer 1."""
    # The place in a layer of each target that stays in the text; -1 for all others.
    stays = np.full(len(first.target), -1)
    is_state = first.target < len(local)
    stays[is_state] = local[first.target[is_state]]
    # One row for each layer, with a copy of all entries.
    layer = np.arange(1, limit.most + 1)[:, None]
    source = _state(limit, layer, local[first.source])
    target = np.where(stays < 0, first.target, _state(limit, layer + 1, stays))
    alive = (stays < 0) | (layer < limit.most)
    return TransitionEntries(np.broadcast_to(first.owner, alive.shape)[alive], source[alive], target[alive])


def _state(limit: TokenLimit, layer: Ints, place: Ints) -> Ints:
    """Return the states at some places of layers. All layers after the first one stand in a row."""
    return np.where(layer == 1, limit.later[place], limit.first + (layer - 2) * len(limit.later) + place)
