"""What is left of an automaton without the states that no text leads to, or from which none can be ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import spend
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.leaf import QUOTE, Copies
from logitkit.compiler.bytes.nested_dfa import NEVER, NestedDfa
from logitkit.compiler.bytes.nesting_needs import alive, behind_is, needs
from logitkit.errors import ConfigurationError

__all__ = ["live"]


def live(dfa: NestedDfa) -> NestedDfa:
    """Leave out the states from which no text can be ended, and find out how deep the others must go for that."""
    if dfa.copies is not None:
        dfa = _reached(dfa, _shortened(dfa, dfa.copies).step, dfa.copies)
    # What strings that are called need is nothing: there is room for one of them wherever there is room for a bracket.
    flat = dfa if dfa.copies is None else _without_strings(_shortened(dfa, dfa.copies), dfa.copies)
    lives, met = alive(flat)
    if dfa.copies is not None:
        met |= dfa.copies.string_ends(len(dfa.behind))
    dfa = replace(dfa, behind=np.where(met[:, None], dfa.behind, DEAD))
    need = needs(replace(flat, behind=dfa.behind))
    if dfa.copies is not None:
        need = _of_whole_copies(need, dfa.copies)
    if (lives & (need == NEVER)).any():
        raise ConfigurationError(
            "what follows a call must go deeper than the call, however deep that was, so that no depth is enough; let one of the "
            "definitions that a bracket may begin end otherwise"
        )
    kept = np.flatnonzero(need < NEVER)
    if need[dfa.start] == NEVER:
        return NestedDfa.of(_to_nothing())
    known = np.concatenate([np.arange(FIRST_STATE), kept])
    number = np.zeros(dfa.states, np.int64)
    number[kept] = FIRST_STATE + np.arange(len(kept))
    usable = (need[dfa.entry] < NEVER) & behind_is(dfa, need < NEVER)
    if ((need[dfa.entry] < NEVER) & ~usable & ~behind_is(dfa, need == NEVER)).any():
        raise ConfigurationError("behind a call no text can be ended, but for some of its texts only")
    left = np.flatnonzero(usable)
    # What each number in the table stands for now.
    means = np.concatenate(
        [
            number,
            np.where(usable, len(known) + np.cumsum(usable) - 1, DEAD),
            len(known) + len(left) + np.arange(len(dfa.behind)),
        ]
    )
    step = means[dfa.step[known]].astype(np.int32)
    step[:FIRST_STATE] = DEAD
    accepting = dfa.accepting[known]
    accepting[:FIRST_STATE] = False
    need = need[known]
    need[:FIRST_STATE] = 0
    return NestedDfa(
        step,
        dfa.byte_class,
        accepting,
        int(number[dfa.start]),
        number[dfa.entry[left]],
        dfa.frame[left],
        number[dfa.behind],
        need,
        copies=None if dfa.copies is None else dfa.copies.renumbered(number, len(known)),
    )


def _reached(dfa: NestedDfa, step: NDArray[np.int32], copies: Copies) -> NestedDfa:
    """Cut off the states that no text leads to, as those of a text that goes on beside a leaf; a copy stays as a whole.

    Args:
        dfa: The automaton.
        step: What its states do, as far as copies are left.
        copies: The copies in it.
    """
    states, calls = dfa.states, dfa.calls
    # States, calls and ends; no call is entered twice.
    met = np.zeros(states + calls + len(dfa.behind), bool)
    met[dfa.start] = True
    fresh = np.array([dfa.start])
    while len(fresh):
        spend(1 + len(fresh))
        seen = met.copy()
        seen[step[fresh[fresh < states]]] = True
        call = fresh[(fresh >= states) & (fresh < states + calls)] - states
        seen[dfa.entry[call]] = True
        seen[dfa.behind[:, dfa.frame[call]]] = True
        fresh = np.flatnonzero(seen & ~met)
        met = seen
    met = met[:states]
    owner = copies.of_states()
    kept = np.zeros(len(copies.leaf) + 1, bool)
    kept[owner[met]] = True
    kept[-1] = False
    met |= kept[owner]
    return replace(dfa, step=np.where(met[:, None], dfa.step, DEAD))


def _shortened(dfa: NestedDfa, copies: Copies) -> NestedDfa:
    """Return an automaton in which copies with one exit have one state, the first, which leads there: strings may be long."""
    single = np.array([exits[0] if len(exits) == 1 else DEAD for exits in copies.exits], np.int64)
    single = np.where(single < 0, dfa.states + dfa.calls - 1 - single, single)
    first = np.arange(dfa.states + dfa.calls + len(dfa.behind))
    owner = copies.of_states()
    within = np.flatnonzero(owner >= 0)
    within = within[single[owner[within]] != DEAD]
    first[within] = copies.first[owner[within]]
    step = first.astype(np.int32)[dfa.step]
    step[within] = DEAD
    # Those that no text leads to are cut off.
    alone = np.flatnonzero((single != DEAD) & dfa.step[copies.first].any(axis=1))
    step[copies.first[alone], 0] = single[alone]
    return replace(dfa, step=step)


def _of_whole_copies(found: NDArray[Any], copies: Copies) -> NDArray[Any]:
    """Return what holds for each state, given what holds for the first state of each copy with one exit."""
    owner = copies.of_states()
    single = np.array([len(exits) == 1 for exits in copies.exits], bool)
    within = np.flatnonzero(owner >= 0)
    within = within[single[owner[within]]]
    found = found.copy()
    found[within] = found[copies.first[owner[within]]]
    return found


def _without_strings(dfa: NestedDfa, copies: Copies) -> NestedDfa:
    """Return an automaton in which strings that are called take no byte: their quote leads behind them at once."""
    called = np.flatnonzero(copies.frame >= 0)
    step = dfa.step.copy()
    step[copies.opening[called], dfa.byte_class[QUOTE]] = dfa.behind[:, copies.frame[called]].max(axis=0, initial=DEAD)
    return replace(dfa, step=step)


def _to_nothing() -> ByteDfa:
    """Return the automaton of no text."""
    return ByteDfa(np.zeros((FIRST_STATE + 1, 1), np.int32), np.zeros(256, np.int64), np.zeros(3, bool), FIRST_STATE)
