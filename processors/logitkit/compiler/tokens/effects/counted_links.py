"""The actions of tokens in a fragment that counts: how much they add to the count, and with which counts they are legal.

By hand, for strings of 2 to 5 characters:

    ab      stays in the string: legal with a count of 0 to 3, and adds 2
    ab"     ends the string: legal with a count of 0 to 3
    "       ends the string: legal with a count of 2 to 5
    "ab     begins the string: legal with every count, and the new count is 2

Invariants: after the opening quote, counting starts again, so a token that begins with it does not depend on the count before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.fragment_instances import FragmentInstances
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.bytes.sorting import which_of
from logitkit.compiler.bytes.string_fragment import UNBOUNDED, Counted, StringFragment
from logitkit.compiler.bytes.transition_columns import Ints
from logitkit.compiler.tokens.effects.action_numbering import ActionNumbering, CountedMoves
from logitkit.compiler.tokens.tables.counted_state import MOST

__all__ = ["CountedStates", "counted_ends", "counted_moves"]


class CountedStates:
    """The states of an automaton that count, for walks that begin outside of them.

    Args:
        instances: The instances of fragments in the automaton.
        byte_class: [256] the class of each byte in the automaton; fragments have no more classes.
    """

    def __init__(self, instances: FragmentInstances, byte_class: NDArray[np.int64]) -> None:
        # For each state: how many must follow, the greatest count in all, and the least and greatest count with which a text may
        # end there; and its row in `moves`, 0 if it does not count.
        self.needed, self.bound, self.least, self.most, self.row = (
            np.zeros(len(instances.base_state), np.int64) for _ in range(5)
        )
        # Whether each move counts, by state and class of bytes. All instances of a fragment share its rows.
        example = np.zeros(1 + int(byte_class.max()), np.int64)
        example[byte_class] = np.arange(len(byte_class))
        moves, first_row, rows = [np.zeros((1, len(example)), bool)], {}, 1
        for number, fragment in enumerate(instances.fragments):
            if fragment.counted is not None:
                moves.append(fragment.counted.counts[FIRST_STATE:, fragment.byte_class[example]])
                first_row[number], rows = rows, rows + fragment.size
        self.moves = np.concatenate(moves)
        for number, first in zip(instances.fragment.tolist(), instances.first.tolist(), strict=True):
            fragment = instances.fragments[number]
            if fragment.counted is not None:
                mine = slice(first, first + fragment.size)
                self.row[mine] = first_row[number] + np.arange(fragment.size)
                self.needed[mine] = fragment.counted.needed[FIRST_STATE:]
                self.bound[mine] = fragment.counted.most
                self.least[mine], self.most[mine] = fragment.counted.at_ends(fragment)[FIRST_STATE:].T

    @classmethod
    def of(cls, instances: FragmentInstances, byte_class: NDArray[np.int64]) -> CountedStates | None:
        """Return the states of an automaton that count, or None if no fragment in it does."""
        counting = any(fragment.counted is not None for fragment in instances.fragments)
        return cls(instances, byte_class) if counting else None

    def stepped(self, state: Ints, symbol: Ints, does: Ints, count: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Return the counts after one byte, and whether it is legal.

        Args:
            state: States.
            symbol: The class of the byte in each.
            does: The step that the byte takes in each.
            count: The counts before the byte.
        """
        row = self.row[state]
        own = row > 0
        inside = NestedStep.is_state(does)
        inside[inside] = self.row[does[inside]] > 0
        # A byte never leads from one fragment to another one.
        stays, ends = own & inside, own & ~inside
        fits = ~ends | ((self.least[state] <= count) & (count <= self.most[state]))
        count = count + (stays & self.moves[row, symbol])
        fits &= ~stays | (count + self.needed[np.where(stays, does, DEAD)] <= self.bound[state])
        return np.where(ends, 0, count), fits


def counted_ends(leads: Ints, length: Ints, mark: Ints, counted: Counted, actions: ActionNumbering) -> Ints:
    """Return the actions of tokens that end the fragment, with the counts with which they are legal.

    Args:
        leads: [instances, N] the actions, without counts.
        length: [N] how much each token adds to the count before the end.
        mark: [N] the end that each token reaches.
        counted: The bounds of the ends.
        actions: Gives numbers to the actions.

    Returns:
        [instances, N] the actions with counts.
    """
    shape = 1 + int(leads.max(initial=0)), 1 + int(length.max(initial=0)), len(counted.ends)
    met, which = which_of(np.ravel_multi_index(np.broadcast_arrays(leads, length, mark), shape).ravel())
    found = np.zeros(len(met), np.int64)
    columns = (column.tolist() for column in np.unravel_index(met, shape))
    for i, (lead, before, end) in enumerate(zip(*columns, strict=True)):
        least, most = counted.ends[end]
        if (least, most) == UNBOUNDED:
            found[i] = lead
        elif lead != DEAD and before <= most:
            low, high = max(least - before, 0), most - before
            found[i] = actions.number(actions.action(lead)._replace(low=low, high=high))
    return found[which].reshape(leads.shape)


def counted_moves(
    moves: tuple[Ints, Ints, Ints], first: Ints, fragment: StringFragment, actions: ActionNumbering
) -> Ints:
    """Return the actions of tokens that stay in the fragment.

    Args:
        moves: Three columns [N]: a state of the fragment, the state that a token leads to, and how much it adds to the count.
        first: [instances] the first state of each instance.
        fragment: The fragment.
        actions: Gives numbers to the actions.

    Returns:
        [instances, N] the actions.
    """
    source, target, added = moves
    counted = fragment.counted
    assert counted is not None
    width = 1 + int(added.max(initial=0))
    kinds, which = which_of((target.astype(np.int64) * width + added) * 2 + (source != fragment.states))
    (state, count), kept = np.divmod(kinds // 2, width), kinds % 2
    high = counted.most - counted.needed[state] - count
    legal = np.flatnonzero(high >= 0)
    states = first[:, None] + state[legal] - FIRST_STATE
    columns = (states, np.where(kept, np.minimum(high, MOST), MOST)[legal], kept[legal], count[legal])
    made = CountedMoves(*(np.broadcast_to(part, states.shape).ravel() for part in columns))
    found = np.zeros((len(first), len(kinds)), np.int64)
    found[:, legal] = actions.add_counted(made).reshape(states.shape)
    # A token that begins with the opening quote and counts nothing leads to a plain state.
    plain = legal[(kept[legal] == 0) & (count[legal] == 0)]
    found[:, plain] = first[:, None] + state[plain] - FIRST_STATE
    return found[:, which]
