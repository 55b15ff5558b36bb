"""States in rules of a limited number of tokens from which no token goes on within the limit.

By hand, for at most 2 tokens of `/[a-z]{4}/` and tokens of one and two letters: after one letter, one more token cannot complete
the rule, so this state is removed, and a row begins the rule with two letters.

Outside of such rules, a row can always go on byte by byte (`grammar_tokens`). So it is an error if a byte enters a rule that then
cannot be completed, and no other byte goes on there. The check knows only what the automaton over bytes reads, so it also refuses
a rule such as the one above, which is only entered by whole tokens.

Invariants: from every state of a rule that is left, some token leads to such a state, or out of the rule.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.pushdown_dfa import NEVER, PushdownDfa
from logitkit.compiler.bytes.pushdown_step import POP, PushdownStep
from logitkit.compiler.bytes.sorting import which_of
from logitkit.compiler.bytes.transition_columns import TransitionColumns
from logitkit.compiler.tokens.effects.action_numbering import ActionNumbering
from logitkit.compiler.tokens.limited_rules import RuleLimit
from logitkit.errors import ConfigurationError
from logitkit.limits import Limits

__all__ = ["rules_without_progress"]

# This many entries of a table take as long as one other step.
_ENTRIES_A_STEP = 32


def rules_without_progress(
    dfa: PushdownDfa,
    transitions: TransitionColumns,
    rule_limits: tuple[RuleLimit, ...],
    actions: ActionNumbering,
    limits: Limits,
) -> NDArray[np.bool_]:
    """Return [S + F] the states in a rule from which no token goes on within the limit.

    Args:
        dfa: The automaton over bytes, with the states of all layers.
        transitions: The columns with the entries of all layers.
        rule_limits: The limits.
        actions: The actions that targets stand for.
        limits: Bound on the work.

    Raises:
        ConfigurationError: The first byte of a rule may lead to such a state where no other byte goes on.
    """
    dead = np.zeros(dfa.states + dfa.frames, bool)
    source, target = transitions.source.astype(np.int64), transitions.target
    inside, last, safe = (np.zeros(dfa.states, bool) for _ in range(3))
    for limit in rule_limits:
        for layer in range(1, limit.most + 1):
            sources = limit.fresh if layer == 1 else limit.state(layer, np.arange(len(limit.later)))
            same = limit.later_of_fresh if layer == 1 else slice(None)
            inside[sources] = True
            if layer == limit.most:
                last[sources] = True
                dead[sources] = limit.end[same] == DEAD
            else:
                safe[sources] = _ends_freely(dfa, limit)[same]
    # The state that each entry leads to, and whether there is always room for it.
    targets, which = which_of(target)
    states = np.array([_leads_to(int(target), dfa, actions) for target in targets.tolist()], np.int64)
    leads = states[which]
    fits = leads != DEAD
    fits &= dfa.need[leads] <= dfa.need[np.minimum(source, dfa.states - 1)]
    open_ = np.zeros(len(dead), bool)
    open_[: dfa.states] = inside & ~last
    counted = fits & open_[source]
    while True:
        limits.spend(len(source) // _ENTRIES_A_STEP)
        going = np.zeros(len(dead), bool)
        going[source[counted & ~dead[leads]]] = True
        stuck = open_ & ~going
        stuck[: dfa.states] &= ~safe
        if not (stuck & ~dead).any():
            break
        dead |= stuck
    if not _goes_on_outside(dfa, dead, inside):
        numbers = " or ".join(str(limit.most) for limit in rule_limits if dead[limit.fresh].any())
        raise ConfigurationError(
            f"max_tokens={numbers} may be too few: where a rule with this limit begins, this many tokens of the vocabulary may "
            "not complete its text; raise max_tokens, or shorten the texts of the rule"
        )
    return dead


def _leads_to(target: int, dfa: PushdownDfa, actions: ActionNumbering) -> int:
    """Return the state that a target leads to without a change of the stack, else `DEAD`."""
    if target < dfa.states:
        return target
    action = actions.action(target)
    return DEAD if action.rest or action.pushed else action.state


def _goes_on_outside(dfa: PushdownDfa, dead: NDArray[np.bool_], inside: NDArray[np.bool_]) -> bool:
    """Whether some byte goes on wherever others enter a rule that cannot be completed.

    Args:
        dfa: The automaton over bytes, with the states of all layers.
        dead: [S + F] the states in rules from which no token goes on.
        inside: [S] the states in rules.
    """
    step = dfa.step
    moves = PushdownStep.is_push(step)
    number = np.where(moves, PushdownStep.move(step.astype(np.int64)), 0)
    target = np.where(moves, np.append(dfa.target, DEAD)[number], np.maximum(step, DEAD))
    lost = dead[target] & (step != DEAD)
    lossy = lost.any(axis=1) & ~inside
    if not lossy.any():
        return True
    frame_need = dfa.frame_need if dfa.frame_need is not None else np.full(dfa.frames, NEVER)
    height = [
        max([len(frames) + int(dfa.need[to]), *[i + int(frame_need[frame]) for i, frame in enumerate(frames)]])
        for frames, to in zip(dfa.pushed, dfa.target.tolist(), strict=True)
    ]
    room = np.where(moves, np.append(np.array(height, np.int64), NEVER)[number], dfa.need[target])
    good = (target != DEAD) & ~dead[target] & (room <= dfa.need[:, None])
    if not good[lossy].any(axis=1).all():
        return False
    # After a frame is popped, only the symbols that pop it are looked at.
    state, _, after = dfa.return_state[lossy[dfa.return_state[:, 2]]].T
    return bool(((step[state] == POP) & good[after]).any(axis=1).all())


def _ends_freely(dfa: PushdownDfa, limit: RuleLimit) -> NDArray[np.bool_]:
    """Return [N] the later states in which the rule may end before whatever may follow it, although the limit is not reached."""
    own, after = dfa.step[limit.later], dfa.step[limit.end]
    freely: NDArray[np.bool_] = (limit.end != DEAD) & ((after == DEAD) | (own == after)).all(axis=1)
    return freely
