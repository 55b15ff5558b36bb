"""The instances of string fragments in an automaton: their states, the quotes that enter them, and where their ends lead.

By hand, for `{"a": <string>, "b": <string>}` and a fragment with 12 states: the instances have the states 20 to 31 and 32 to
43. The first is entered by a quote in state 5, and its end leads to state 7, before the comma. The second one is entered in
state 9, and its end leads to state 11, before the closing bracket.

Invariants: the states of an instance stand next to each other, in the order of its fragment. An automaton has whole instances
only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.bytes.string_fragment import StringFragment

__all__ = ["FragmentInstances"]


class FragmentInstances(NamedTuple):
    """The instances of fragments in an automaton.

    Args:
        fragments: The fragments, each once.
        fragment: [N] int64, the fragment of each instance.
        first: [N] int64, the first state of each instance; the others follow.
        exits: For each instance, the step at each of its ends (`NestedStep`). It leads to a state of the automaton, or it is an
            end of the automaton: a fragment that is called has one instance for all calls, and the frame says where each
            continues.
        opening: [O] int64, the states in which a quote enters an instance.
        opened: [O] int64, the instance that it enters.
        entered: [O] int64, the state after the quote: the first state of the instance, or an override state.
        frame: [O] int64, the frame that the quote pushes if the fragment is called, else -1.
        base_state: [S] int64, the base state of each override state; 0 for all others (`literal_overrides`).
        strings: [F] bool, which frames are those of called fragments. These do not count as nesting.
    """

    fragments: tuple[StringFragment, ...]
    fragment: NDArray[np.int64]
    first: NDArray[np.int64]
    exits: tuple[tuple[int, ...], ...]
    opening: NDArray[np.int64]
    opened: NDArray[np.int64]
    entered: NDArray[np.int64]
    frame: NDArray[np.int64]
    base_state: NDArray[np.int64]
    strings: NDArray[np.bool_]

    def of_states(self) -> NDArray[np.int64]:
        """Return [S] the instance that each state belongs to, -1 for states outside of instances."""
        found = np.full(len(self.base_state), -1)
        for instance, (fragment, first) in enumerate(zip(self.fragment.tolist(), self.first.tolist(), strict=True)):
            found[first : first + self.fragments[fragment].size] = instance
        return found

    def string_ends(self, ends: int) -> NDArray[np.bool_]:
        """Return [E] which ends of the automaton are ends of called strings."""
        found = np.zeros(ends, bool)
        found[[NestedStep.number(leads) for exits in self.exits for leads in exits if NestedStep.is_end(leads)]] = True
        return found

    def renumbered(self, number: NDArray[np.int64], states: int, owner: NDArray[np.int64]) -> FragmentInstances | None:
        """Return the instances after some states are left out; None if only a part of an instance is left.

        The state after an end may be left out if no text leads to this end.

        Args:
            number: [S] the new number of each state, `DEAD` for states that are left out.
            states: How many states are left.
            owner: [S] the instance that each state belongs to, as `of_states` returns it.
        """
        alive = number[owner_states := np.flatnonzero(owner >= 0)] != DEAD
        sizes = np.array([self.fragments[fragment].size for fragment in self.fragment.tolist()], np.int64)
        count = np.bincount(owner[owner_states[alive]], minlength=len(self.fragment))
        whole = count == sizes
        exits = [[leads if NestedStep.is_end(leads) else int(number[leads]) for leads in row] for row in self.exits]
        if ((count > 0) & ~whole).any():
            return None
        new_instance = np.cumsum(whole) - 1
        kept = np.flatnonzero(whole)
        opens = whole[self.opened] & (number[self.opening] != DEAD) & (number[self.entered] != DEAD)
        base_state = np.zeros(states, np.int64)
        left = np.flatnonzero(number)
        base_state[number[left]] = number[self.base_state[left]]
        return FragmentInstances(
            self.fragments,
            self.fragment[kept],
            number[self.first[kept]],
            tuple(tuple(exits[instance]) for instance in kept.tolist()),
            number[self.opening[opens]],
            new_instance[self.opened[opens]],
            number[self.entered[opens]],
            self.frame[opens],
            base_state,
            self.strings,
        )
