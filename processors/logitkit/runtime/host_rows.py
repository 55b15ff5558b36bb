"""A batch on the host: the two operations on states of rows, advance and mask, by the rows themselves (`constraint_row`).

A state consists of tensors. To read one of them as Python numbers, or to make one, takes a microsecond, and a step of one row
reads ten and makes three. So the rows of the last state are remembered with the tensors that say where they are: the step that
follows finds them by the identity of these tensors.

Only the last state of a registry is remembered. A step takes its rows out of the registry, and puts them back when they are where
the new state says: so no other thread meets them on the way, and nothing is remembered of a step that fails. Any other state, and
one whose tensors were written to, is read again.
"""

from __future__ import annotations

from operator import attrgetter, is_
from typing import TypeVar

import torch
from torch import Tensor

from logitkit.runtime.automaton_registry import AutomatonRegistry
from logitkit.runtime.constraint_row import ConstraintRow
from logitkit.runtime.logit_arrays import as_array, check_row
from logitkit.runtime.positions import Numbers, RowState
from logitkit.runtime.token_bits import packed, width

__all__ = ["HostRows", "advance_on_host", "bits_on_host", "mask_on_host"]

# In larger batches, reading a state takes a small part of a step, so no rows are remembered.
MANY_ROWS = 1024

# The masks of larger batches are not kept with their rows. A mask takes up to 0.75 MB at 131k columns.
FEW_ROWS = 32

# torch counts the operations that write to a tensor.
VERSION = attrgetter("_version")
NOT_COUNTED = -1

S = TypeVar("S", bound=RowState)


class HostRows:
    """The rows of a state.

    Args:
        state: The state.
        rows: Its rows.
        numbers: Their numbers.
    """

    __slots__ = ("_state", "_tensors", "_writes", "numbers", "rows")

    def __init__(self, state: RowState, rows: list[ConstraintRow], numbers: Numbers) -> None:
        self._state, self._tensors = state, state.tensors
        self._writes: int | None = None
        self.rows, self.numbers = rows, numbers

    @classmethod
    def taken(cls, registry: AutomatonRegistry, state: RowState) -> HostRows:
        """Take the rows of a state on the CPU out of the registry, or read them."""
        try:
            known: HostRows = registry.last_rows.pop()
        except IndexError:
            pass
        else:
            if known.are_of(state):
                return known
        rows = state.host_rows(registry)
        return cls(state, rows, state.numbers_of(rows))

    def put(self, registry: AutomatonRegistry) -> None:
        """Remember these rows for the next step."""
        if len(self.rows) <= MANY_ROWS:
            if self._writes is None:
                self._writes = _writes(self._tensors)
            registry.last_rows = [self]

    def are_of(self, state: RowState) -> bool:
        """Whether these are the rows of a state: its tensors are the same, and nothing has been written to them."""
        mine = self._tensors
        if state is not self._state:
            tensors = state.tensors
            if len(mine) != len(tensors) or not all(map(is_, mine, tensors)):
                return False
        return self._writes != NOT_COUNTED and self._writes == _writes(mine)


def _writes(tensors: tuple[Tensor, ...]) -> int:
    """Return how often torch operations wrote to some tensors, or `NOT_COUNTED`."""
    try:
        return sum(map(VERSION, tensors))
    except RuntimeError:  # a tensor that was made in inference mode
        return NOT_COUNTED


def advance_on_host(registry: AutomatonRegistry, state: S, tokens: Tensor) -> S:
    """Return the state after tokens, row by row; it is the given one if no row has changed.

    For a few rows, this is faster than any tensor operation.

    Args:
        registry: The registry that the slots refer to.
        state: The state of B rows, on the CPU.
        tokens: [B] or [B, T] int64, -1 = none.

    Raises:
        StaleAutomaton: A slot's automaton no longer exists.
    """
    known = HostRows.taken(registry, state)
    rows = known.rows
    if tokens.dim() == 2:
        for row, run in zip(rows, tokens.tolist(), strict=True):
            for token in run:
                row.advance(token)
    else:
        for row, token in zip(rows, tokens.tolist(), strict=True):
            row.advance(token)
    numbers = state.numbers_of(rows)
    if numbers == known.numbers:
        known.put(registry)
        return state
    after = state.with_numbers(numbers, known.numbers)
    HostRows(after, rows, numbers).put(registry)
    return after


def mask_on_host(registry: AutomatonRegistry, state: RowState, logits: Tensor, *, of_model: bool = False) -> Tensor:
    """Mask row by row in place, each in the cheapest way for its state, with cached masks for visited states.

    Args:
        registry: The registry that the slots refer to.
        state: The state of B rows, on the CPU.
        logits: [B, W] floating point, W at least the size of the vocabulary; columns beyond it are masked.
        of_model: Whether broken logits are an error; otherwise, NaN counts as -inf.

    Raises:
        BrokenLogits: The logits of a row are those of a model, and broken.
        StaleAutomaton: A slot's automaton no longer exists.
        VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
    """
    known = HostRows.taken(registry, state)
    array, never, zero = as_array(logits)
    columns = array.shape[1]
    for number, row in enumerate(known.rows):
        found = row.mask(columns)
        if found is not None:
            found.apply(array[number], never, zero, number if of_model else None)
        elif of_model:
            check_row(array[number], never, number)
    if len(known.rows) > FEW_ROWS:
        for row in known.rows:
            row.forget_mask()
    known.put(registry)
    return logits


def bits_on_host(registry: AutomatonRegistry, state: RowState, columns: int) -> Tensor:
    """Return which tokens are left after `mask_on_host` if all logits are finite, as bits, [B, ceil(W / 32)] int32.

    Args:
        registry: The registry that the slots refer to.
        state: The state of B rows, on the CPU.
        columns: The number of columns of the logits, W.

    Raises:
        StaleAutomaton: A slot's automaton no longer exists.
        VocabularyError: There are fewer columns than the vocabulary has ids, or far more.
    """
    known = HostRows.taken(registry, state)
    made = torch.zeros((len(known.rows), width(columns)), dtype=torch.int32)
    for number, row in enumerate(known.rows):
        found = row.mask(columns)
        bits = packed(torch.ones(1, columns, dtype=torch.bool))[0] if found is None else found.packed()
        made[number, : len(bits)] = bits
    if len(known.rows) > FEW_ROWS:
        for row in known.rows:
            row.forget_mask()
    known.put(registry)
    return made
