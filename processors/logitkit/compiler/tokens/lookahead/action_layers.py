"""Tokens with several actions in one state, as under a grammar that is not deterministic.

In palindromes, `a` may open another pair or close one. Columns list such a state once for each action. Tables list each state
once, so an automaton gets further *layers*: the first has the first action of each token and state, the second has the second
one, and so on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.transition_columns import TransitionColumns, starts
from logitkit.compiler.tokens.effects.whole_tokens import ENTRIES_A_STEP
from logitkit.errors import PatternTooLarge
from logitkit.limits import Limits

__all__ = ["also_whole", "layers_of"]

# How many actions a token may have in one state.
MOST_LAYERS = 32


def also_whole(
    transitions: TransitionColumns, whole: int, classes: NDArray[np.int32], limits: Limits
) -> TransitionColumns:
    """Let some classes also do what `WHOLE` does; a class that does both in a state lists that state twice.

    Args:
        transitions: The column of each class.
        whole: The class of `WHOLE`.
        classes: The classes of the tokens that it stands for.
        limits: Bounds on the work.

    Raises:
        PatternTooLarge: There are too many classes and states.
    """
    one = transitions.take(np.array([whole]))
    limits.spend(len(classes) * len(one.source) // ENTRIES_A_STEP)
    owner = np.repeat(np.arange(len(transitions)), np.diff(transitions.start))
    owner = np.append(owner, np.repeat(classes, len(one.source)))
    source = np.append(transitions.source, np.tile(one.source, len(classes)))
    target = np.append(transitions.target, np.tile(one.target, len(classes)))
    owner, source, target = np.unique(np.stack([owner, source, target]), axis=1)
    return TransitionColumns(
        transitions.default, starts(np.bincount(owner, minlength=len(transitions))), source, target
    )


def layers_of(transitions: TransitionColumns) -> list[TransitionColumns]:
    """Split columns that list states several times into such that list each once.

    Raises:
        PatternTooLarge: There would be too many.
    """
    owner = np.repeat(np.arange(len(transitions)), np.diff(transitions.start))
    where = np.arange(len(owner))
    same = (owner[1:] == owner[:-1]) & (transitions.source[1:] == transitions.source[:-1])
    # How many entries for the same state come before each.
    rank = where - np.maximum.accumulate(np.where(np.append(False, same)[: len(owner)], 0, where))
    found = []
    for layer in range(1 + int(rank.max(initial=0))):
        kept = rank == layer
        start = np.searchsorted(owner[kept], np.arange(len(transitions) + 1))
        found.append(TransitionColumns(transitions.default, start, transitions.source[kept], transitions.target[kept]))
    if len(found) > MOST_LAYERS:
        raise PatternTooLarge(
            f"the grammar is ambiguous: a token has {len(found)} outcomes at once, more than {MOST_LAYERS}; simplify its rules"
        )
    return found
