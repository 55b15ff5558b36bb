"""From which states of a nested automaton the text can be completed, and how many frames this takes.

A state is *alive* if some text leads from it to the end of its part. A call is of use only if the part that it calls is alive,
and if a state after it is alive too. The *need* of a state is the least number of frames that must be open at once on the way
to the end.

By hand, for a list that must have an item, which is a list or `1`: after `[`, the state needs no frame, as `1` and `]` complete
the part. If the item must be a list, and only an inner list may have `1`, the state after the outer `[` needs one frame.

Invariants: a number of frames is enough for a state only if it is enough after each call on the way, whichever end the call
has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import spend
from logitkit.compiler.bytes.byte_dfa import DEAD, ROWS_AT_ONCE
from logitkit.compiler.bytes.nested_dfa import NEVER, NestedDfa
from logitkit.compiler.bytes.nested_step import ByStep, NestedStep
from logitkit.compiler.bytes.sorting import stable_order

__all__ = ["Backwards", "Moves", "alive", "holds_after_call", "needs"]

Ints = NDArray[np.int64]

# The number of pairs of an end and a frame that are looked at in one step.
PAIRS_A_STEP = 16


class Moves(NamedTuple):
    """The moves of an automaton, without the bytes that they read.

    Args:
        source: [M] the state of each move.
        does: [M] its step, a `NestedStep`.
    """

    source: Ints
    does: Ints

    @classmethod
    def of(cls, step: NDArray[np.int32], states: Ints, means: ByStep) -> Moves:
        """Return the moves of some states, with other steps: `means` has the new step for each one of the table."""
        sources, targets = [states[:0]], [np.zeros(0, np.int64)]
        for begin in range(0, len(states), ROWS_AT_ONCE):
            some = states[begin : begin + ROWS_AT_ONCE]
            rows = means.values.take(step[some], mode="wrap")
            # Most classes of bytes with the same step are neighbours, so this leaves out most duplicates.
            fresh = rows != DEAD
            fresh[:, 1:] &= rows[:, 1:] != rows[:, :-1]
            at = np.flatnonzero(fresh)
            sources.append(some[at // step.shape[1]])
            targets.append(rows.ravel()[at].astype(np.int64))
        return cls(np.concatenate(sources), np.concatenate(targets))

    def reached(self, dfa: NestedDfa) -> NDArray[np.bool_]:
        """Return [S] the states to which some text leads."""
        spend(len(self.source))
        inside, calling = NestedStep.is_state(self.does), NestedStep.is_call(self.does)
        caller, call = self.source[calling], NestedStep.number(self.does[calling])
        returned = dfa.return_state[:, dfa.frame[call]]
        leads = np.concatenate([self.does[inside], dfa.entry[call], returned.ravel()])
        source = np.concatenate([self.source[inside], caller, np.broadcast_to(caller, returned.shape).ravel()])
        alive = leads != DEAD
        lists = _Lists(source[alive], leads[alive], dfa.states)
        return lists.closure(np.zeros(dfa.states, bool), np.array([dfa.start]))


def alive(dfa: NestedDfa, moves: Backwards) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Find the states that are alive: from which some text leads to the end of their part, or of the whole text.

    Args:
        dfa: The automaton.
        moves: Its moves.

    Returns:
        [S] the states that are alive, and [E] the ends that some text reaches from the entry of their part.
    """
    # All calls of a part have one entry. A round looks at one end of each part, and the ends of a part are ranked for this.
    entry = np.array([dfa.entry[row[dfa.frame] != DEAD].max(initial=DEAD) for row in dfa.return_state], np.int64)
    rank = np.array([np.count_nonzero(entry[:end] == entry[end]) for end in range(len(entry))], np.int64)
    found = [moves.before_ends]
    if rank.any():
        begins = [moves.caller_of_end[rank[moves.end] == r] for r in range(int(rank.max()) + 1)]
        begins[0] = np.concatenate([begins[0], moves.accepting])
        found = [moves.before(np.zeros(dfa.states, bool), begin) for begin in begins]
    while True:
        met = (entry != DEAD) & np.array([bool(found[r][at]) for r, at in zip(rank, entry, strict=True)], bool)
        grown = False
        for r, within in enumerate(found):
            leads = _leads_on(dfa, within, met)
            begin = moves.caller[leads[moves.call] & ~within[moves.caller]]
            if len(begin):
                found[r] = moves.before(within, begin)
                grown = True
        if not grown:
            return np.logical_or.reduce(found), met


def needs(dfa: NestedDfa, moves: Backwards, lives: NDArray[np.bool_]) -> Ints:
    """Return the need of each state, `NEVER` if no number of frames is enough.

    The state after a call may be the state in which it was opened. So a number of frames is first taken to be enough for all
    states, and states are then left out until no more of them fail.

    Args:
        dfa: The automaton.
        moves: Its moves.
        lives: [S] the states that are alive.
    """
    every_end = np.ones(len(dfa.return_state), bool)
    need = np.full(dfa.states, NEVER)
    # The frame of a block of items does not count, so a call of a block needs what the block needs.
    blocks = dfa.is_block[dfa.frame]
    depth = 0
    while True:
        shallower = need < depth
        found = np.ones(dfa.states, bool)
        while True:
            goes_on = holds_after_call(dfa, found)
            # States with a lower need, and without a call to the end, are the first for which this depth is enough.
            found = shallower if depth else moves.before_ends
            while True:
                open_to = goes_on & (shallower[dfa.entry] | (blocks & found[dfa.entry]))
                leads = open_to & _leads_on(dfa, found, every_end)
                begin = moves.caller[leads[moves.call] & ~found[moves.caller]]
                if not len(begin):
                    break
                found = moves.before(found, begin)
            if not (open_to & ~holds_after_call(dfa, found)).any():
                break
        fresh = found & (need == NEVER)
        need[fresh] = depth
        depth += 1
        # In most automata, no state needs a frame.
        if not fresh.any() or not (lives & (need == NEVER)).any():
            return need


def holds_after_call(dfa: NestedDfa, holds: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return [C] for each call whether a property of states holds for all states that may follow it."""
    spend(1 + dfa.return_state.size // PAIRS_A_STEP)
    fine = (dfa.return_state == DEAD) | holds[dfa.return_state]
    found: NDArray[np.bool_] = fine.all(axis=0)[dfa.frame]
    return found


def _leads_on(dfa: NestedDfa, holds: NDArray[np.bool_], met: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return [C] for each call whether a property of states holds for a state that follows it, after an end that is reached."""
    spend(1 + dfa.return_state.size // PAIRS_A_STEP)
    found: NDArray[np.bool_] = ((dfa.return_state != DEAD) & met[:, None] & holds[dfa.return_state]).any(axis=0)[
        dfa.frame
    ]
    return found


class Backwards:
    """The moves of some states of an automaton, sorted by their targets.

    Args:
        dfa: The automaton.
        moves: Its moves.
        some: [S] the states.

    Attributes:
        accepting: The states in which the whole text may end.
        before_ends: [S] the states from which an end of their part, or of the whole text, is reached without a call.
    """

    def __init__(self, dfa: NestedDfa, moves: Moves, some: NDArray[np.bool_]) -> None:
        kept = some[moves.source]
        source, does = moves.source[kept], moves.does[kept]
        inside, calling, ending = NestedStep.is_state(does), NestedStep.is_call(does), NestedStep.is_end(does)
        self.caller, self.call = source[calling], NestedStep.number(does[calling])
        self.caller_of_end, self.end = source[ending], NestedStep.number(does[ending])
        self._sources = _Lists(does[inside], source[inside], dfa.states)
        self.accepting = np.flatnonzero(dfa.accepting & some)
        ends = np.concatenate([self.accepting, self.caller_of_end])
        self.before_ends = self.before(np.zeros(dfa.states, bool), ends)

    def calls(self, dfa: NestedDfa) -> NDArray[np.bool_]:
        """Return [C] the calls among the moves, and all calls of strings, which `live` replaces by the states after them."""
        found = np.zeros(dfa.calls, bool) if dfa.instances is None else dfa.instances.strings[dfa.frame]
        found[self.call] = True
        return found

    def before(self, known: NDArray[np.bool_], begin: Ints) -> NDArray[np.bool_]:
        """Return [S] the known states, and all states from which moves lead to the states `begin`."""
        return self._sources.closure(known, begin)


class _Lists:
    """A list of states for each state: those that it leads to, or those that lead to it."""

    def __init__(self, owner: Ints, listed: Ints, states: int) -> None:
        order = stable_order(owner)
        self._first: list[int] = np.searchsorted(owner[order], np.arange(states + 1)).tolist()
        self._listed: list[int] = listed[order].tolist()

    def closure(self, known: NDArray[np.bool_], begin: Ints) -> NDArray[np.bool_]:
        """Return [S] the known states, the states `begin`, and all states that are reached from these through lists."""
        # In Python, because most paths are long and narrow, such as names. Arrays would have a round for each byte.
        first, listed = self._first, self._listed
        found = bytearray(known.tobytes())
        todo = begin.tolist()
        for state in todo:
            found[state] = 1
        add = todo.append
        # The list grows while the loop runs.
        for state in todo:
            for other in listed[first[state] : first[state + 1]]:
                if not found[other]:
                    found[other] = 1
                    add(other)
        return np.frombuffer(found, bool)
