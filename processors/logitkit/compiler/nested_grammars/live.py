"""Leave out the states of an automaton to which no text leads, or from which no text can be completed.

In a state from which no text can be completed, a row would be stuck. For all other states, this also finds how many brackets
must be opened at once on the way to the end.

By hand, for `[` and then either `]` or a call of rule 1, where no text belongs to rule 1: the call leads nowhere, so it is left
out, and `]` remains. If rule 1 is `{` and `}`, both remain. The state after `[` needs 0 brackets, as it may read `]`.

Invariants: an instance of a fragment stays whole or is left out. In an instance whose ends all lead to the same state, all
states do the same here as the first one. So they are followed as one state, because strings may be long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa, renumbered_table
from logitkit.compiler.bytes.fragment_instances import FragmentInstances
from logitkit.compiler.bytes.literal_overrides import BracketsOverlap
from logitkit.compiler.bytes.nested_dfa import NEVER, NestedDfa
from logitkit.compiler.bytes.nested_step import ByStep, NestedStep
from logitkit.compiler.bytes.nesting_needs import Backwards, Moves, alive, holds_after_call, needs

__all__ = ["live"]


def live(dfa: NestedDfa) -> NestedDfa:
    """Leave out the states that lead nowhere or are never reached, and find what the others need.

    Raises:
        BracketsOverlap: Text can be completed after some texts of a call, but not after others.
    """
    # The instance of a fragment that each state belongs to.
    owner = np.full(dfa.states, -1) if dfa.instances is None else dfa.instances.of_states()
    moves = _moves(dfa, owner)
    reached = met = moves.reached(dfa)
    if dfa.instances is not None:
        met = _with_whole_instances(reached, dfa, dfa.instances, owner)
    # Some states of words are never reached, because override states take their place.
    backwards = Backwards(dfa, moves, met)
    lives, ended = alive(dfa, backwards)
    if dfa.instances is not None:
        ended |= dfa.instances.string_ends(len(dfa.return_state))
    dfa = replace(dfa, return_state=np.where(ended[:, None], dfa.return_state, DEAD))
    need = needs(dfa, backwards, lives)
    if dfa.instances is not None:
        need = _of_whole_instances(need, dfa.instances, owner)
    if (lives & (need == NEVER)).any():
        raise BracketsOverlap(
            "the text after a nested value must nest deeper than that value, so no depth is enough; change how one of the "
            "rules that begin with this bracket ends"
        )
    if dfa.instances is not None:
        need[_never_entered(need, reached, dfa.instances, owner)] = 0
    kept = np.flatnonzero(need < NEVER)
    if need[dfa.start] == NEVER:
        return NestedDfa.of(_to_nothing())
    known = np.concatenate([np.arange(FIRST_STATE), kept])
    number = np.zeros(dfa.states, np.int64)
    number[kept] = FIRST_STATE + np.arange(len(kept))
    # Where a call never ends, the states after it do not matter.
    ends = backwards.calls(dfa) & (need[dfa.entry] < NEVER)
    usable = ends & holds_after_call(dfa, need < NEVER)
    if (ends & ~usable & ~holds_after_call(dfa, need == NEVER)).any():
        raise BracketsOverlap("after some texts of a call no text can be ended, but after others it can")
    left = np.flatnonzero(usable)
    # The new step for each step of the table.
    means = dfa.renumbered_steps(number.astype(np.int32))
    means.calls[:] = np.where(usable, NestedStep.call(np.cumsum(usable) - 1), DEAD)
    # They are not used again, and the tables are large.
    del moves, backwards
    instances = None if dfa.instances is None else _left(dfa.instances, number, len(known), owner)
    step = renumbered_table(dfa.step, known, means)
    step[:FIRST_STATE] = DEAD
    accepting = (dfa.accepting & met)[known]
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
        number[dfa.return_state],
        need,
        special_tokens={token: _renumbered(leads[known], number) for token, leads in dfa.special_tokens.items()},
        instances=instances,
        returns={int(number[state]): end for state, end in dfa.returns.items() if number[state] != DEAD},
        blocks=dfa.blocks,
        open_blocks=dfa.open_blocks,
    )


def _never_entered(
    need: NDArray[Any], reached: NDArray[np.bool_], instances: FragmentInstances, owner: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return the dead states of instances that have other, live states: these instances stay whole.

    Such states exist if the texts of one end of a fragment are all read as words instead.
    """
    needed = np.zeros(len(instances.fragment) + 1, bool)
    needed[owner[need < NEVER]] = True
    # An instance whose ends all lead to the same state is dead or live as a whole.
    needed[:-1] &= np.array([len({*exits}) > 1 for exits in instances.exits], bool)
    needed[-1] = False
    found: NDArray[np.bool_] = needed[owner] & ~reached & (need == NEVER)
    return found


def _left(
    instances: FragmentInstances, number: NDArray[np.int64], states: int, owner: NDArray[np.int64]
) -> FragmentInstances | None:
    """Return the instances that are left, None if one of them is no longer whole.

    Raises:
        BracketsOverlap: One of them is no longer whole, and some count characters or are called.
    """
    found = instances.renumbered(number, states, owner)
    if found is None and (
        instances.strings.any() or any(fragment.counted is not None for fragment in instances.fragments)
    ):
        raise BracketsOverlap("after some strings that count characters, or are called, no text can be ended")
    return found


def _renumbered(leads: NDArray[np.int64], number: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where a special token leads from the states that are left. It leads nowhere from dead and finished ones."""
    found = number[leads]
    found[:FIRST_STATE] = DEAD
    return found


def _moves(dfa: NestedDfa, owner: NDArray[np.int64]) -> Moves:
    """Return the moves of all states, in which an instance whose ends lead to the same state has one state, its first."""
    means = dfa.renumbered_steps(np.arange(dfa.states, dtype=np.int32))
    if dfa.instances is None:
        found = [Moves.of(dfa.step, np.arange(dfa.states), means)]
    else:
        found = _of_instances(dfa, dfa.instances, owner, means)
    found += [Moves(np.flatnonzero(leads), leads[leads != DEAD]) for leads in dfa.special_tokens.values()]
    if dfa.returns:
        found.append(Moves(*np.array([(s, NestedStep.end(end)) for s, end in dfa.returns.items()], np.int64).T))
    return Moves(*map(np.concatenate, zip(*found, strict=True)))


def _of_instances(dfa: NestedDfa, instances: FragmentInstances, owner: NDArray[np.int64], means: ByStep) -> list[Moves]:
    """Return the moves by bytes of an automaton with instances of fragments."""
    single = np.array([exits[0] if len({*exits}) == 1 else DEAD for exits in instances.exits], np.int64)
    short = np.append(single != DEAD, False)[owner]
    within = np.flatnonzero(short)
    means.states[within] = instances.first[owner[within]]
    # There is always room for the frame of a string. So the byte that calls a string leads straight to the state after it.
    called = np.flatnonzero(instances.strings[dfa.frame])
    means.calls[called] = dfa.return_state[:, dfa.frame[called]].max(axis=0, initial=DEAD)
    alone = np.flatnonzero(single != DEAD)
    return [Moves.of(dfa.step, np.flatnonzero(~short), means), Moves(instances.first[alone], single[alone])]


def _with_whole_instances(
    met: NDArray[np.bool_], dfa: NestedDfa, instances: FragmentInstances, owner: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Add to some states, [S] bool, all states of their instances, and of called instances whose ends lead to them."""
    kept = np.zeros(len(instances.fragment) + 1, bool)
    kept[owner[met]] = True
    called = [instance for instance, exits in enumerate(instances.exits) if NestedStep.is_end(exits[0])]
    ends = NestedStep.number(np.array([instances.exits[instance][0] for instance in called], np.int64))
    kept[called] |= (met & (np.arange(dfa.states) >= FIRST_STATE))[dfa.return_state[ends]].any(axis=1)
    kept[-1] = False
    found: NDArray[np.bool_] = met | kept[owner]
    return found


def _of_whole_instances(found: NDArray[Any], instances: FragmentInstances, owner: NDArray[np.int64]) -> NDArray[Any]:
    """Copy a value of states from the first state of each instance whose ends lead to the same state to its other states."""
    single = np.array([len({*exits}) == 1 for exits in instances.exits], bool)
    within = np.flatnonzero(owner >= 0)
    within = within[single[owner[within]]]
    found = found.copy()
    found[within] = found[instances.first[owner[within]]]
    return found


def _to_nothing() -> ByteDfa:
    """Return the automaton of no text."""
    return ByteDfa(np.zeros((FIRST_STATE + 1, 1), np.int32), np.zeros(256, np.int64), np.zeros(3, bool), FIRST_STATE)
