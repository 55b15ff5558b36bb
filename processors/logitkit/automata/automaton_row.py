"""One row under a finite automaton, stepped on the CPU without tensors: for engines that run one sequence."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray

from logitkit.automata.automaton_state import AutomatonState
from logitkit.automata.bank import NEUTRAL, Bank
from logitkit.automata.row_mask import RowMask
from logitkit.errors import VocabularyError

__all__ = ["AutomatonRow"]


class AutomatonRow:
    """A row of an `AutomatonState`, with what it takes to step it as Python numbers.

    A step of one row on tensors is mostly the calls of torch, and these mostly the memory that they touch, which a model has
    thrown out of the processor's caches.

    Args:
        bank: The bank that the state refers to.
        state: The state of one row.
    """

    __slots__ = ("_bank", "_generation", "_slot", "_state", "mask")

    def __init__(self, bank: Bank, state: AutomatonState) -> None:
        self._bank = bank
        self._slot, self._generation, self._state = (int(part) for part in state)
        self.mask: RowMask | None = None
        self._find_mask()

    def advance(self, token: int) -> None:
        """Go on by one token."""
        if self._slot != NEUTRAL:
            self._state = self._bank.automaton(self._slot, self._generation).next(self._state, token)
            self._find_mask()

    def _find_mask(self) -> None:
        if self._slot != NEUTRAL:
            self.mask = self._bank.mask(self._slot, self._generation, self._state)

    def process(self, row: NDArray[Any], never: Any, zero: Any) -> None:
        """Mask the logits of the row in place.

        Args:
            row: [W], at least as wide as the vocabulary.
            never: What -inf is in it; see `row_mask.as_array`.
            zero: What 0 is in it.

        Raises:
            VocabularyError: It has fewer columns than the vocabulary has ids.
        """
        if self.mask is not None:
            self.check_width(len(row))
            self.mask.apply(row, never, zero)

    def check_width(self, columns: int) -> None:
        """Raise `VocabularyError` if logits have fewer columns than the vocabulary has ids."""
        if self.mask is not None and columns < self.mask.size:
            raise VocabularyError(
                f"the logits have {columns} columns, but the vocabulary has {self.mask.size} ids: it belongs to another model"
            )

    @property
    def state(self) -> AutomatonState:
        """The state as tensors, of one row."""
        return AutomatonState(*(torch.tensor([n]) for n in (self._slot, self._generation, self._state)))
