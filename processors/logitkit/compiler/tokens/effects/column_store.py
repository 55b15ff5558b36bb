"""The columns of the prefixes of tokens: a number stands for a column through all levels of a trie."""

from __future__ import annotations

import numpy as np

from logitkit.compiler.bytes.byte_dfa import NOT_LISTED
from logitkit.compiler.bytes.transition_columns import Ints, Moves, TransitionColumns, of_bytes, starts, then_byte
from logitkit.compiler.tokens.effects.column_table import ColumnTable
from logitkit.limits import Limits

# Columns of more exceptions, or this few columns at once, are stepped one by one: calls of numpy cost little beside them.
LONG = 128
FEW = 10

# This many exceptions take as long, and as much memory, as one other step.
EXCEPTIONS_A_STEP = 4


class ColumnStore(ColumnTable):
    """Numbers columns as they are met; column 0 leads to death from everywhere.

    Args:
        moves: The automaton.
        limits: Bound on the work.
        work: The steps that were counted before.
        sources: How many states matter, if not all do: only these are listed, with all their targets.
    """

    def __init__(self, moves: Moves, limits: Limits, work: int, sources: int | None = None) -> None:
        super().__init__(moves.step.dtype, limits, work)
        self.moves = moves
        self.sources = sources

    @property
    def width(self) -> int:
        """Number of byte classes."""
        return len(self.moves.step)

    def of_bytes(self) -> Ints:
        """Return the number of the column of every byte class."""
        return self._add(of_bytes(self.moves) if self.sources is None else self._of_sources(self.sources))

    def _of_sources(self, sources: int) -> TransitionColumns:
        step = self.moves.step
        symbol, source = np.nonzero(step[:, :sources])
        start = starts(np.bincount(symbol, minlength=len(step)))
        return TransitionColumns(
            np.zeros(len(step), step.dtype), start, source.astype(step.dtype), step[symbol, source]
        )

    def then_byte(self, which: Ints, symbol: Ints) -> Ints:
        """Return the numbers of the columns `which`, each followed by a byte of the class `symbol`."""
        table = self.table
        if len(which) <= FEW:
            return np.array(self._one_by_one(which, symbol))
        long = table.start[which + 1] - table.start[which] > LONG
        if not long.any():
            return self._add(then_byte(self.moves, table, which, symbol))
        short = ~long
        numbers = np.empty(len(which), np.int64)
        numbers[short] = self._add(then_byte(self.moves, table, which[short], symbol[short]))
        numbers[long] = self._one_by_one(which[long], symbol[long])
        return numbers

    def _one_by_one(self, which: Ints, symbol: Ints) -> list[int]:
        table, goes_on = self.table, self.moves.goes_on
        rows = self.moves.step if goes_on is None else goes_on
        defaults = self.moves.step[symbol, table.default[which]]
        numbers: list[int] = []
        fresh: list[tuple[int, Ints, Ints]] = []
        for c, a, b, default in zip(
            symbol.tolist(),
            table.start[which].tolist(),
            table.start[which + 1].tolist(),
            defaults.tolist(),
            strict=True,
        ):
            target = rows[c].take(table.target[a:b])
            keep = target != default
            if goes_on is not None:
                keep &= target != NOT_LISTED
            source = table.source[a:b]
            if np.count_nonzero(keep) < b - a:
                # Quicker than by a mask, where two arrays are selected from.
                (kept,) = keep.nonzero()
                source, target = source.take(kept), target.take(kept)
            self.charge(1 + len(target) // EXCEPTIONS_A_STEP)
            known = len(self._number)
            number = self._number.setdefault((default, source.tobytes() + target.tobytes()), known)
            if number == known:
                fresh.append((default, source, target))
            numbers.append(number)
        if fresh:
            default_of, source_of, target_of = zip(*fresh, strict=True)
            begin = starts(np.array([*map(len, source_of)]))
            new = TransitionColumns(np.array(default_of), begin, np.concatenate(source_of), np.concatenate(target_of))
            self._append(new)
        return numbers

    def _add(self, met: TransitionColumns) -> Ints:
        return self._numbers(met, len(met.source) // EXCEPTIONS_A_STEP)
