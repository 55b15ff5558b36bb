"""The stores of the columns of prefixes of tokens in a fragment, from which the classes of tokens are found.

A token may end a fragment in its middle. The rest of the token then does something that depends on the place of the fragment.
So a target is either a state of the fragment, or an end with the number of bytes that are left after it. If the fragment
counts, a target also says how many characters, or line feeds, have been counted on the way. `FragmentTargets` numbers all
targets in a row, so that a store steps through them as through states.

By hand, for a fragment of 5 states with one end that counts characters, tokens of up to 2 characters, and up to 3 bytes after an
end:

    3     state 3, no character counted
    5     the state before the opening quote
    9     state 3, one character counted: 1 + 5 * 1 + 3
    16    the end, no character counted, no byte left
    18    the same end, two bytes left
    20    the end, one character counted, no byte left

Invariants: if nothing was counted, the target of a state is the state itself. After these targets comes the state before the
quote, so all later targets are one higher. With one character more, the target of a state is higher by the number of states, and
that of an end by the number of all ends with their bytes. A byte after an end leads to the next target, and after the last of
these it is dead.
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
    """Reads and writes the targets of prefixes of tokens in a fragment.

    Args:
        states: The number of states of the fragment. The state with this number is the one before the quote.
        marks: The number of its ends.
        chain: One more than the most bytes that a token has after an end.
        counts: One more than the most characters that a token counts; 1 if the fragment does not count.
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
        """Return the targets of states after some characters."""
        return state + (1 + self.states * characters if characters else 0)

    def end(self, mark: Ints) -> Ints:
        """Return the targets of ends, without characters before them and bytes after them."""
        return self.first_end + mark * self.chain

    def is_end(self, target: Ints) -> NDArray[np.bool_]:
        """Return whether targets are ends, not states."""
        found: NDArray[np.bool_] = target >= self.first_end
        return found

    def reached(self, target: Ints) -> tuple[Ints, Ints]:
        """Return the states of targets, and how many characters are counted on the way there."""
        count, state = np.divmod(target - 1, self.states)
        first = target <= self.states
        return np.where(first, target, state), np.where(first, 0, count)

    def ended(self, target: Ints) -> tuple[Ints, Ints]:
        """Return a number for each end and the characters before it (see `ending`), and how many bytes are left."""
        return np.divmod(target - self.first_end, self.chain)

    def ending(self, number: Ints) -> tuple[Ints, Ints]:
        """Return the mark of each end, and how many characters are counted before it, given the numbers from `ended`."""
        characters, mark = np.divmod(number, max(self.marks, 1))
        return mark, characters

    def after_byte(self) -> Ints:
        """Return [size] the target after one more byte for each target that is an end, `DEAD` for states."""
        found: Ints = np.arange(1, 1 + self.size)
        found[: self.first_end] = DEAD
        found[self.first_end + self.chain - 1 :: self.chain] = DEAD
        return found


class CountingStore(ColumnStore):
    """The store of a fragment that counts. Its table has no rows for each count: targets are computed.

    Args:
        fragment: The fragment.
        step: [S + 1, K] its moves, and last those of the state before the quote.
        targets: The targets of prefixes.
        limits: Bound on the work.
    """

    def __init__(self, fragment: StringFragment, step: Ints, targets: FragmentTargets, limits: Limits) -> None:
        assert fragment.counted is not None
        # For each target: where the row of its state begins, its count, and the target after one byte if it is an end.
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
        """Find the target of each move from a count of 0, and by how much it grows with each further count.

        From a count of 0 to a count of 1, targets of states grow by one more, because of the state before the quote.
        """
        inner, ends = NestedStep.is_state(step) & (step != DEAD), NestedStep.is_end(step)
        # The opening quote does not count.
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
        """Return the target after one byte for each target."""
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
        step: [S + 1, K] its moves, and last those of the state before the quote.
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
