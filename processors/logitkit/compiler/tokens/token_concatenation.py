"""Token automata after one another, with a token between them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.behaviours import Behaviours, Ints, merge, starts
from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.compiler.tokens.dead_ends import without_dead_ends
from logitkit.compiler.tokens.joint_classes import Side, joint_classes
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.limits import Limits


def until_token(first: TokenAutomaton, marker: int, second: TokenAutomaton, limits: Limits) -> TokenAutomaton | None:
    """Build the automaton of a sequence of `first`, a token, and a sequence of `second`; the token is where it occurs first.

    Args:
        first: What comes before the token. Where it accepts, the token leads on.
        marker: The id of the token.
        second: What comes behind it, over the same vocabulary.
        limits: Bounds on the result.

    Returns:
        The automaton, or None if no sequence of tokens is left.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    class_of, before, behind = joint_classes(first, second)
    # The marker gets a class of its own, which is the last and does behind itself what it does in the second part.
    last = before.classes
    before, behind = (Side(s.automaton, np.append(s.own, s.automaton.class_of[marker])) for s in (before, behind))
    class_of[marker] = last
    shift = first.states - FIRST_STATE
    states = first.states + second.states - FIRST_STATE
    limits.check_states(states)
    here, there = _listed(before, limits), _listed(behind, limits)
    # Before the marker its class leads on alone; and a class that only the marker had leads nowhere.
    stays = (here[1] != last) & (np.bincount(class_of, minlength=last + 1) > 0)[here[1]]
    accepting = np.flatnonzero(first.accepting)
    source = np.concatenate([here[0][stays], accepting, there[0] + shift])
    symbol = np.concatenate([here[1][stays], np.full(len(accepting), last), there[1]])
    moved = np.where(there[2] == DEAD, DEAD, there[2] + shift)
    target = np.concatenate([here[2][stays], np.full(len(accepting), second.start + shift), moved])
    order = np.argsort(symbol * np.int64(states) + source)
    behaviours = Behaviours(
        np.zeros(last + 1, np.int64), starts(np.bincount(symbol, minlength=last + 1)), source[order], target[order]
    )
    ends = np.zeros(states, bool)
    ends[first.states :] = second.accepting[FIRST_STATE:]
    fallback = None
    if first.fallback is not None or second.fallback is not None:
        fallback = np.concatenate([before.below, behind.below[FIRST_STATE:] + shift])
    behaviours, alive = without_dead_ends(behaviours, ends, fallback)
    if not alive[first.start]:
        return None
    behaviours, merged = merge(behaviours)
    return TokenAutomaton.of(
        merged[class_of],
        behaviours,
        ends,
        first.start,
        first.eos_ids,
        first.pad_id,
        fallback,
        second.banned_ends,
    )


def _listed(side: Side, limits: Limits) -> tuple[Ints, Ints, NDArray[np.int64]]:
    """Return all that the states of one part list over a default of death: state, class and target; nothing about EOS."""
    states = np.arange(FIRST_STATE, side.automaton.states)
    last = states[side.below[states] == states]
    limits.check_work(len(last) * side.classes // 4)
    rows = side.rows(last)
    which, symbol = np.nonzero(rows >= FIRST_STATE)
    falling = states[side.below[states] != states]
    owner, listed, target = side.listed(falling)
    target = np.where(target == FINISHED, DEAD, target)
    return (
        np.concatenate([last[which], falling[owner]]),
        np.concatenate([symbol, listed]),
        np.concatenate([rows[which, symbol].astype(np.int64), target]),
    )
