"""The number of tokens in a shortest completion of a text, from each state of a finite automaton."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.transition_columns import Ints, starts
from logitkit.compiler.tokens.completion.min_tokens_to_finish import UNREACHABLE
from logitkit.compiler.tokens.tables.stack_actions import StackActions
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["counting_tokens"]

# This many moves are followed in one step of work.
MOVES_A_STEP = 16


def counting_tokens(made: TokenAutomaton, limits: Limits) -> TokenAutomaton:
    """Return an automaton whose rows may count the tokens that are left to them.

    Args:
        made: An automaton without a stack.
        limits: Bounds on the work.

    Raises:
        PatternTooLarge: It takes too many steps.
    """
    if made.fallback is not None:
        # Each state lists all that it does.
        limits.check_work(made.states * made.classes // MOVES_A_STEP)
        made = made.without_fallback()
    limits.check_work(len(made.row_class) // MOVES_A_STEP)
    return replace(made, nesting=StackActions.counting_tokens(_costs(*_moves(made), made.accepting)))


def _costs(source: Ints, target: Ints, accepting: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the tokens that are needed from each state, found backwards from the ends."""
    states = len(accepting)
    inside = (source >= FIRST_STATE) & (target >= FIRST_STATE)
    source, target = source[inside], target[inside]
    order = np.argsort(target, kind="stable")
    before, first = source[order], starts(np.bincount(target, minlength=states))
    cost = np.full(states, UNREACHABLE, np.int32)
    cost[DEAD] = 0
    found, needed = np.flatnonzero(accepting), 0
    while len(found):
        cost[found] = needed
        place, _ = expand(first[found], first[found + 1] - first[found])
        reached = np.unique(before[place])
        found, needed = reached[cost[reached] == UNREACHABLE], needed + 1
    return cost


def _moves(made: TokenAutomaton) -> tuple[Ints, Ints]:
    """Return which states some token leads from, and to which."""
    source = np.repeat(np.arange(made.states), np.diff(made.row_start))
    sources, targets = [source], [made.row_target.astype(np.int64)]
    instead = made.default[made.row_class]
    for default in np.unique(made.default[made.default >= FIRST_STATE]).tolist():
        # From a state that does not list all classes of a default, one of them leads there.
        listed = np.bincount(source[instead == default], minlength=made.states)
        sources.append(np.flatnonzero(listed < np.count_nonzero(made.default == default)))
        targets.append(np.full(len(sources[-1]), default))
    return np.concatenate(sources), np.concatenate(targets)
