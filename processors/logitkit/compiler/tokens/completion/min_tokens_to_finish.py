"""The least number of tokens that a text still needs to its end.

The *cost* of a state is the number of tokens to the closing bracket of its part, or to the end of the text if no bracket is open.
The cost of a frame is that of the state after it. The cost of a row is that of its state and of all its frames together.

By hand, for nested lists such as `[[],[]]` and the tokens `[`, `[[`, `]`, `]]` and a comma: the state after the outer `[` needs
one token, and so does the frame of an inner list. So after `[[`, two tokens are needed. The token `]]` closes both lists at
once, but it does not count: a token that closes a bracket and continues does something that depends on the frame.

Invariants: the bound can be kept. From every state some token leads to a state that needs one token less. For this, only moves
count that nest no deeper than they must, so that there is always room for them. Where characters are counted, only tokens count
that are legal with every count of the state.

A finite automaton has a simpler algorithm: backwards from the accepting states (`counting_tokens`).

Source: Knuth, A generalization of Dijkstra's algorithm (1977), for the least costs of derivations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.fragment_instances import FragmentInstances
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.transition_columns import Ints, starts
from logitkit.compiler.tokens.effects.action_table import ActionTable
from logitkit.compiler.tokens.tables.counted_state import Counting
from logitkit.compiler.tokens.tables.stack_actions import StackActions
from logitkit.compiler.tokens.tables.targets import Targets
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["UNREACHABLE", "counting_tokens", "min_tokens_to_finish"]

# This many moves are followed in one step of work.
MOVES_A_STEP = 16


def counting_tokens(made: TokenAutomaton, limits: Limits) -> TokenAutomaton:
    """Return an automaton whose rows may have a limit of tokens.

    Args:
        made: An automaton without a stack.
        limits: Bounds on the work.

    Raises:
        PatternTooLarge: It takes too many steps.
    """
    if made.fallback is not None:
        # Costs are computed from rows, so each row must list all that its state does.
        limits.check_work(made.states * made.classes // MOVES_A_STEP)
        made = made.without_fallback()
    limits.check_work(len(made.row_class) // MOVES_A_STEP)
    return replace(made, nesting=StackActions.counting_tokens(_costs(*_moves(made), made.accepting)))


def _costs(source: Ints, target: Ints, accepting: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the cost of each state of a finite automaton, found backwards from the accepting states."""
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
    """Return the moves of all tokens: the state that each leads from, and the state that it leads to."""
    source = np.repeat(np.arange(made.states), np.diff(made.row_start))
    sources, targets = [source], [made.row_target.astype(np.int64)]
    instead = made.default[made.row_class]
    for default in np.unique(made.default[made.default >= FIRST_STATE]).tolist():
        # If a state does not list all classes that have this default, one of them leads to the default.
        listed = np.bincount(source[instead == default], minlength=made.states)
        sources.append(np.flatnonzero(listed < np.count_nonzero(made.default == default)))
        targets.append(np.full(len(sources[-1]), default))
    return np.concatenate(sources), np.concatenate(targets)


# The cost of a state from which the tokens do not lead to the end.
UNREACHABLE = 2**28


def min_tokens_to_finish(
    dfa: NestedDfa, source: Ints, target: Ints, table: ActionTable, limits: Limits, whatever_count: bool = True
) -> NDArray[np.int32]:
    """Return the cost of each state and frame, `UNREACHABLE` if the tokens do not lead to the end.

    Args:
        dfa: The automaton over bytes.
        source: The states in which tokens are legal, one entry for each target of a token there.
        target: The target of each entry: a state or an action.
        table: The actions.
        limits: Bound on the work.
        whatever_count: Whether to follow only tokens that are legal with every count of characters in a state.

    Raises:
        PatternTooLarge: It takes too many steps.
    """
    states = dfa.states + dfa.frames
    targets = Targets(states, dfa.frames)
    count = states + len(table.state)
    source, target = np.divmod(np.unique(source * np.int64(count) + target), count)
    inside = (source >= FIRST_STATE) & (source < dfa.states) & (target >= FIRST_STATE)
    height = np.concatenate([np.zeros(states, np.int64), table.height])
    pops = np.concatenate([np.zeros(states, bool), (table.rest > 0) & (table.closes < 0)])
    # The height of an action includes the frame of a string or a block of items, which may be open besides all brackets.
    need = np.concatenate([dfa.need, np.zeros(dfa.frames, np.int64)]) + int(dfa.uncounted.any())
    kept = inside & (height[target] <= need[source]) & ~pops[target]
    if whatever_count and table.counting is not None and dfa.instances is not None:
        kept[kept] = _whatever_the_count(
            dfa.instances, Counting.of(table.counting), source[kept], target[kept], targets
        )
    ways = _Ways(dfa, table, source[kept], target[kept], limits)
    found = ways.costs(np.ones(len(dfa.return_state), bool))
    if dfa.blocks:
        # A block ends with a comma or with the bracket of its array. Completing a text by brackets needs fewer tokens.
        ended = ways.costs(_preferred(dfa, found))
        if not ((ended == UNREACHABLE) & (found < UNREACHABLE)).any():
            found = ended
    return found


def _preferred(dfa: NestedDfa, cost: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return [E] the ends with which texts are completed: of the ends of a block, only the one with the least cost after it."""
    returned = dfa.return_state[:, dfa.is_block]
    meets = returned != DEAD
    found: NDArray[np.bool_] = ~meets.any(axis=1)
    found[np.where(meets, cost[returned], UNREACHABLE + 1).argmin(axis=0)] = True
    return found


class _Ways(NamedTuple):
    """The moves by which texts may be completed.

    Args:
        dfa: The automaton over bytes.
        table: The actions.
        source: [N] the state of each, ascending.
        target: [N] its target: a state or an action.
        limits: Bound on the work.
    """

    dfa: NestedDfa
    table: ActionTable
    source: Ints
    target: Ints
    limits: Limits

    def costs(self, ends: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Return the costs if texts are completed with some ends of the automaton only, [E] bool."""
        dfa, table, source, target, limits = self
        states = dfa.states + dfa.frames
        targets = Targets(states, dfa.frames)
        cost = np.full(states + len(table.state), UNREACHABLE)
        cost[np.flatnonzero(dfa.accepting)] = 0
        cost[[*dfa.returns]] = 0
        cost[DEAD] = 0
        closes = np.flatnonzero(table.closes >= 0)
        cost[targets.action(closes[ends[table.closes[closes]]])] = 0
        # Costs are cut off at `UNREACHABLE`, so that sums of them do not grow.
        pushed = np.flatnonzero(table.rest == 0)
        returned, frame = dfa.return_state[ends].T, targets.frame(np.arange(dfa.frames))
        first = np.flatnonzero(np.append(True, source[1:] != source[:-1])[: len(source)])
        steps = 0
        while True:
            steps += 1 + len(source) // 64
            limits.check_work(steps)
            if dfa.frames:
                cost[frame] = cost[returned].max(axis=1)
            pushes = cost[table.state[pushed]] + cost[table.pushed[pushed]].sum(axis=1)
            cost[targets.action(pushed)] = np.minimum(pushes, UNREACHABLE)
            if not len(source):
                break
            least = np.minimum.reduceat(np.minimum(cost[target] + 1, UNREACHABLE), first)
            better = np.minimum(least, cost[source[first]])
            if (better == cost[source[first]]).all():
                break
            cost[source[first]] = better
        return cost[:states].astype(np.int32)


def _whatever_the_count(
    instances: FragmentInstances, counting: Counting, source: Ints, target: Ints, targets: Targets
) -> NDArray[np.bool_]:
    """Return whether targets are legal with every count with which a row may be in their states.

    A count is never too low: the state says how many characters must follow, and its moves are those that remain possible.

    Args:
        instances: The instances of fragments, of which some count.
        counting: The effects of actions on the count.
        source: [N] the states.
        target: [N] the targets.
        targets: Says which targets are actions.
    """
    highest = np.zeros(len(instances.base_state), np.int64)
    for number, first in zip(instances.fragment.tolist(), instances.first.tolist(), strict=True):
        fragment = instances.fragments[number]
        if fragment.counted is not None:
            highest[first : first + fragment.size] = fragment.highest_counts[FIRST_STATE:]
    found = ~targets.is_action(target)
    at = np.flatnonzero(~found)
    found[at] = highest[source[at]] <= counting.high[targets.action_number(target[at])]
    return found
