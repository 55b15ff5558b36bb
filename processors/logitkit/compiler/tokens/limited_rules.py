"""Rules of a limited number of tokens: one layer of states for each number of tokens that write the rule.

A token *writes* a rule if at least one of its bytes belongs to the rule's text. So a token that begins before the rule and ends
in it is the first one, and one that begins in the rule and ends after it is the last one. Layer `k` has the states after `k`
tokens:

- a token that comes from outside and ends in the rule leads to layer 1: to a *fresh* state (`compiler.grammars.limited_rules`);
- from layer `k`, a token that stays in the rule leads to layer `k + 1`. A token that leaves the rule and enters it again leads
  to layer 1;
- in the last layer, the rule has ended: a state does what the state after the rule does. If the text may not end there, the state
  is dead.

By hand, for at most 3 tokens of `/[a-z]+/` before `Y`, with the fresh state 4, the later state 6, the state 7 after the rule, and
the end 5: `a` leads from 3, before the rule, to 4. The column of `a` has the entry 6 -> 6, and that of `Y` has 6 -> 5 and 7 -> 5.
State 6 becomes layer 2, and a new state 8 is layer 3. Then `a` has 4 -> 6 and 6 -> 8, and `Y` has 4 -> 5, 6 -> 5 and 8 -> 5.

Invariants: each state belongs to one limit as a whole, or to none. Frames and actions lead to no later state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.limit_signs import LimitSigns, other_text
from logitkit.compiler.bytes.pushdown_dfa import PushdownDfa
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, TransitionEntries, starts
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["RuleLimit", "in_rule_layers", "with_rule_limits"]

# The bytes in the middle of a character.
_CONTINUATION = np.arange(0x80, 0xC0)
# The most bytes of a character.
_CHARACTER_BYTES = 4

# The cost of a limit and of a layer, and how many entries that are sorted, and cells of a table that are looked at, take as long
# as one other step. An entry that is copied takes one, with all that is done with it later.
_LIMIT_STEPS = 1000
_LAYER_STEPS = 100
_SORTED_A_STEP = 8
_CELLS_A_STEP = 200


class RuleLimit(NamedTuple):
    """The states of all rules with the same limit.

    Args:
        most: The greatest number of tokens.
        fresh: [M] the states before the first end of a token in the rule: layer 1.
        later_of_fresh: [M] for each of them, the index in `later` of the state that does the same.
        later: [N] the states in the rule after that: layer 2.
        end: [N] for each of these, the state after the rule, if it ends there when the limit is reached; else `DEAD`.
        first: The first of the states of layer 3; the others follow, and then those of layer 4, and so on.
    """

    most: int
    fresh: Ints
    later_of_fresh: Ints
    later: Ints
    end: Ints
    first: int

    def state(self, layer: int, place: Ints) -> Ints:
        """Return the states at some places of a layer from 2 on."""
        return self.later[place] if layer == 2 else self.first + (layer - 3) * len(self.later) + place


def with_rule_limits(dfa: PushdownDfa, limits: Limits) -> tuple[PushdownDfa, tuple[RuleLimit, ...]]:
    """Take the signs of limits out of an automaton over bytes, and add the states of all layers, which read nothing.

    Args:
        dfa: The automaton.
        limits: Bound on the number of states.

    Raises:
        ConfigurationError: A rule with a limit and other text may stand in the same place, or the automaton is not deterministic.
        PatternTooLarge: There are too many states.
    """
    most = sorted({m for token in dfa.special_tokens if (m := LimitSigns.most_of(token)) is not None})
    if not most:
        return dfa, ()
    if len(dfa.further):
        raise ConfigurationError(
            "a grammar with max_tokens must be deterministic, and this one is not; leave out max_tokens, or write the rules so "
            "that the next byte decides which rule goes on"
        )
    bytes_ = int(dfa.byte_class.max()) + 1
    column = {token: dfa.step[:, bytes_ + i].astype(np.int64) for i, token in enumerate(dfa.special_tokens)}
    kept = [i for i, token in enumerate(dfa.special_tokens) if LimitSigns.most_of(token) is None]
    dfa = replace(
        dfa,
        step=dfa.step[:, [*range(bytes_), *[bytes_ + i for i in kept], dfa.step.shape[1] - 1]],
        special_tokens=tuple([dfa.special_tokens[i] for i in kept]),
    )
    found = []
    for number in most:
        limits.spend(_LIMIT_STEPS + dfa.step.size // _CELLS_A_STEP)
        signs = [column[sign] for sign in LimitSigns.of(number) if sign in column]
        if len(signs) == len(LimitSigns._fields) and signs[0].any():
            # States that were added for other limits are not in this one.
            dfa, limit = _with_limit(dfa, number, *(np.pad(leads, (0, dfa.states - len(leads))) for leads in signs))
            found.append(limit)
    for place, limit in enumerate(found):
        found[place] = limit._replace(first=dfa.states)
        more = max(0, limit.most - 2) * len(limit.later)
        if dfa.states + more > limits.states:
            raise PatternTooLarge(
                f"a rule with max_tokens={limit.most} takes {len(limit.later)} states for each token, so more than "
                f"{limits.states} in all; lower max_tokens, or pass limits=Limits(states=...) with a larger number"
            )
        need = np.tile(dfa.need[limit.later], max(0, limit.most - 2))
        dfa = _with_rows(dfa, np.zeros((more, dfa.step.shape[1]), np.int32), need)
    return dfa, tuple(found)


def _with_rows(dfa: PushdownDfa, rows: NDArray[np.int32], need: Ints) -> PushdownDfa:
    return replace(dfa, step=np.concatenate([dfa.step, rows]), need=np.append(dfa.need, need))


def _with_limit(dfa: PushdownDfa, most: int, fresh: Ints, later: Ints, end: Ints) -> tuple[PushdownDfa, RuleLimit]:
    """Find the states of a limit, and give each fresh state a later one that does the same.

    Args:
        dfa: The automaton without the signs.
        most: The number of tokens.
        fresh: [S] where the sign `fresh` leads.
        later: [S] where the sign `later` leads.
        end: [S] where the sign `end` leads.
    """
    overlap = other_text(most)
    states = np.arange(dfa.states)
    in_fresh, in_later = fresh != DEAD, (later != DEAD) & (fresh == DEAD)
    whole = (fresh[in_fresh] == states[in_fresh]).all() and (later[in_later] == states[in_later]).all()
    if not whole or (end < DEAD).any() or not in_later[later[in_fresh]].all():
        raise overlap
    in_fresh |= _inside_characters(dfa, in_fresh, overlap)
    in_later |= _inside_characters(dfa, in_later, overlap)
    # A fresh state in the middle of a character lacks its later state so far.
    alone = np.flatnonzero(in_fresh & (fresh == DEAD))
    later_of = np.where(in_fresh, later, DEAD)
    later_of[alone] = dfa.states + np.arange(len(alone))
    rows = dfa.step[alone]
    leads = np.where(rows != DEAD, later_of[np.maximum(rows, DEAD)], DEAD).astype(np.int32)
    dfa = _with_rows(dfa, leads, dfa.need[alone])
    all_later = np.append(np.flatnonzero(in_later), later_of[alone])
    end = np.append(end, np.zeros(len(alone), np.int64))
    all_fresh = np.flatnonzero(in_fresh)
    place = np.searchsorted(all_later, later_of[all_fresh])
    return dfa, RuleLimit(most, all_fresh, place, all_later, end[all_later], 0)


def _inside_characters(dfa: PushdownDfa, within: NDArray[np.bool_], overlap: ConfigurationError) -> NDArray[np.bool_]:
    """Return [S] the states inside of characters after which a text is within some states."""
    middle = np.zeros(dfa.step.shape[1], bool)
    middle[dfa.byte_class[_CONTINUATION]] = True
    middle[dfa.byte_class[[b for b in range(256) if b not in _CONTINUATION]]] = False
    reads_only = dfa.step.any(axis=1) & ~dfa.step[:, ~middle].any(axis=1)
    inner, found = np.flatnonzero(reads_only), within.copy()
    for _ in range(_CHARACTER_BYTES - 1):
        step = dfa.step[inner]
        leads = found[np.maximum(step, DEAD)] & (step > DEAD)
        some, all_ = leads.any(axis=1), (leads | (step == DEAD)).all(axis=1)
        if (some & ~all_).any():
            raise overlap
        found[inner[all_]] = True
    return found & ~within


def _entries_of(entries: TransitionEntries, sources: Ints) -> tuple[TransitionEntries, Ints]:
    """Return the entries of some sources, and for each the index of its source."""
    order = np.argsort(entries.source, kind="stable")
    begin, end = (np.searchsorted(entries.source[order], sources, side) for side in ("left", "right"))
    at, which = expand(begin, end - begin)
    return entries.take(order[at]), which


def in_rule_layers(
    transitions: TransitionColumns, rule_limits: tuple[RuleLimit, ...], states: int, limits: Limits
) -> TransitionColumns:
    """Return the columns of classes with the entries of all layers.

    Args:
        transitions: The columns over the states of the automaton over bytes. Their defaults are dead.
        rule_limits: The limits.
        states: The number of states.
        limits: Bound on the work.

    Raises:
        PatternTooLarge: There are too many layers.
    """
    entries = TransitionEntries.of(transitions)
    for limit in rule_limits:
        limits.spend(_LAYER_STEPS * limit.most + (len(entries.source) + states) // _SORTED_A_STEP)
        entries = entries.take(np.argsort(entries.source, kind="stable"))
        place = _places(limit, states)
        own = place[entries.source] >= 0
        limits.spend(int(own.sum()) * limit.most)
        fresh = np.zeros(states, bool)
        fresh[limit.fresh] = True
        outside = entries.take(~own & ~fresh[entries.source])
        parts = [outside]
        for layer in range(1, limit.most + 1):
            sources = limit.fresh if layer == 1 else limit.state(layer, np.arange(len(limit.later)))
            same = limit.later_of_fresh if layer == 1 else np.arange(len(limit.later))
            if layer == limit.most:
                found, which = _entries_of(outside, limit.end[same])
                target = found.target
            else:
                found, which = _entries_of(entries, limit.later[same])
                # No action leads to a later state.
                stays = place[np.where(found.target < states, found.target, DEAD)]
                target = np.where(stays < 0, found.target, limit.state(layer + 1, stays))
            parts.append(TransitionEntries(found.owner, sources.astype(np.int32)[which], target.astype(np.int32)))
        entries = TransitionEntries(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    owner, source, target = entries.take(np.lexsort((entries.source, entries.owner)))
    begin = starts(np.bincount(owner, minlength=len(transitions)))
    return TransitionColumns(transitions.default, begin, source, target)


def _places(limit: RuleLimit, states: int) -> Ints:
    """Return [S] the index of each later state, -1 for all other states."""
    place = np.full(states, -1)
    place[limit.later] = np.arange(len(limit.later))
    return place
