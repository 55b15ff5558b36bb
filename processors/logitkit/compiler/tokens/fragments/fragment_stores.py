"""The stores of the columns of prefixes in a fragment, from which the classes of its tokens are found, and their targets.

A token may end a fragment in its middle, and what the rest of it does there depends on where the fragment stands. So a target is
a state of the fragment, or an end with the number of bytes left after it; both with the number of characters begun on the way, if
the fragment counts characters, or of line feeds or whatever else it counts. `FragmentTargets` numbers all of these in a row, so
that a store steps through them as through states.

By hand, for a fragment of 5 states with one end that counts characters, tokens of up to 2 characters, and up to 3 bytes after an
end:

    3     state 3, no character begun
    5     the state before the opening quote
    9     state 3, one character begun: 1 + 5 * 1 + 3
    16    the end, no character begun, no byte left
    18    the same end, two bytes left
    20    the end, one character begun, no byte left

Invariants: without characters, a target is the state itself, and one more state stands before the quote; so later targets are one
higher. One character more moves a state by the number of states, and an end by the number of all ends with their bytes. Each
byte after an end leads to the next number, and the last number of an end to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.bytes.string_fragment import StringFragment
from logitkit.compiler.bytes.transition_columns import Ints, Moves, TransitionColumns, starts
from logitkit.compiler.tokens.effects.column_store import ColumnStore
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["CountingStore", "FragmentTargets", "fragment_store"]


@dataclass(frozen=True, slots=True)
class FragmentTargets:
    """Reads and writes what prefixes of tokens lead to in a fragment.

    Args:
        states: The number of states of the fragment; as a state, that before the quote.
        marks: The number of its ends.
        chain: More bytes than a token has after an end.
        counts: More characters than a token begins, if the fragment counts them; else 1.
    """

    states: int
    marks: int
    chain: int
    counts: int = 1

    @property
    def first_end(self) -> int:
        """The first target that is an end."""
        return 1 + self.states * self.counts

    @property
    def size(self) -> int:
        """How many targets there are."""
        return self.first_end + self.counts * self.marks * self.chain

    def state(self, state: Ints, characters: int = 0) -> Ints:
        """Return the target of states after some characters."""
        return state + (1 + self.states * characters if characters else 0)

    def end(self, mark: Ints) -> Ints:
        """Return the target of ends, without characters before them and bytes after them."""
        return self.first_end + mark * self.chain

    def is_end(self, target: Ints) -> NDArray[np.bool_]:
        """Return whether targets are ends, not states."""
        found: NDArray[np.bool_] = target >= self.first_end
        return found

    def reached(self, target: Ints) -> tuple[Ints, Ints]:
        """Return the states that targets are, and how many characters begin on the way there."""
        count, state = np.divmod(target - 1, self.states)
        first = target <= self.states
        return np.where(first, target, state), np.where(first, 0, count)

    def ended(self, target: Ints) -> tuple[Ints, Ints]:
        """Return a number for each end with the characters before it (see `ending`), and the number of bytes left."""
        return np.divmod(target - self.first_end, self.chain)

    def ending(self, number: Ints) -> tuple[Ints, Ints]:
        """Return the mark of ends with characters, and how many begin before each."""
        characters, mark = np.divmod(number, max(self.marks, 1))
        return mark, characters

    def after_byte(self) -> Ints:
        """Return [size] what one more byte makes of each target that is an end, `DEAD` for states."""
        found: Ints = np.arange(1, 1 + self.size)
        found[: self.first_end] = DEAD
        found[self.first_end + self.chain - 1 :: self.chain] = DEAD
        return found


class CountingStore(ColumnStore):
    """The store of a fragment that counts, whose states are not listed once for each count: they are worked out.

    Args:
        fragment: The fragment.
        step: [S + 1, K] its moves, and those of the state before the quote.
        targets: The targets of prefixes.
        limits: Bound on the work.
    """

    def __init__(self, fragment: StringFragment, step: Ints, targets: FragmentTargets, limits: Limits) -> None:
        assert fragment.counted is not None
        # For each target: its row in the tables of moves, the characters before it, and where it goes if it is an end.
        state, count = targets.reached(np.arange(targets.first_end))
        nothing = np.zeros(targets.size - targets.first_end, np.int64)
        self._row = np.append(state, nothing) * step.shape[1]
        self._count = np.append(count, nothing)
        self._after_end = targets.after_byte()
        self._add_moves(step, targets, fragment.counted.counts)
        sources = np.arange(len(step))
        moves = np.stack([self._after(sources, symbol) for symbol in range(step.shape[1])])
        super().__init__(Moves(moves.astype(np.int32), None, FIRST_STATE), limits, moves.size, len(sources))

    def _add_moves(self, step: Ints, targets: FragmentTargets, counts: NDArray[np.bool_]) -> None:
        """Find for each move the target with a count of 0 before it, and how far it is from there to the next count.

        The first count takes one more, as targets with a count of 0 have a number more.
        """
        inner, ends = NestedStep.is_state(step) & (step != DEAD), NestedStep.is_end(step)
        # The move into the fragment does not count.
        begins = np.append(counts, np.zeros((1, step.shape[1]), bool), axis=0)
        leads = np.where(ends, targets.end(NestedStep.number(step.astype(np.int64))), step)
        self._leads = np.where(begins, targets.state(leads, 1), leads).ravel()
        further = np.where(ends, targets.marks * targets.chain, 0)
        self._further = np.where(inner, targets.states, further).ravel()
        self._once = (inner & ~begins).ravel()

    def then_byte(self, which: Ints, symbol: Ints) -> Ints:
        """Return the numbers of the columns `which`, each followed by a byte of the class `symbol`."""
        table = self.table
        place, owner = expand(table.start[which], table.start[which + 1] - table.start[which])
        target = self._after(table.target[place].astype(np.int64), symbol[owner])
        live = np.flatnonzero(target != DEAD)
        count = np.bincount(owner[live], minlength=len(which))
        default = np.full(len(which), DEAD, np.int32)
        return self._add(
            TransitionColumns(default, starts(count), table.source[place[live]], target[live].astype(np.int32))
        )

    def _after(self, target: Ints, symbol: Ints | int) -> Ints:
        """Return where one byte leads from each target."""
        move, count = self._row.take(target) + symbol, self._count.take(target)
        found: Ints = self._leads.take(move) + self._further.take(move) * count
        found += self._once.take(move) & (count > 0)
        found += self._after_end.take(target)
        return found


def fragment_store(
    step: NDArray[np.int32], byte_class: NDArray[np.int64], targets: FragmentTargets, limits: Limits
) -> ColumnStore:
    """Return the store of a fragment that does not count.

    Args:
        step: [S + 1, K] its moves, and those of the state before the quote.
        byte_class: [256] the class of each byte.
        targets: The targets of prefixes.
        limits: Bound on the work.
    """
    sources = len(step)
    whole = np.empty((targets.size, step.shape[1]), np.int32)
    whole[:sources] = np.where(NestedStep.is_end(step), targets.end(NestedStep.number(step)), step)
    whole[sources:] = targets.after_byte()[sources:, None]
    work = whole.size // 4
    limits.check_work(2 * work)
    moves = Moves.of(ByteDfa(whole, byte_class, np.zeros(len(whole), bool), FIRST_STATE))
    return ColumnStore(moves, limits, work, sources)
