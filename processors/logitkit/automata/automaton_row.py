"""One row under a finite automaton."""

from __future__ import annotations

import torch

from logitkit.automata.automaton_state import AutomatonState
from logitkit.automata.bank import NEUTRAL, Bank
from logitkit.automata.lone_row import LoneRow

__all__ = ["AutomatonRow"]


class AutomatonRow(LoneRow):
    """A row of an `AutomatonState`.

    Args:
        bank: The bank that the state refers to.
        slot: See `AutomatonState`, as are the others.
        generation: Of the slot.
        state: Of the automaton.
    """

    __slots__ = ("_bank", "_generation", "_slot", "_state")

    def __init__(self, bank: Bank, slot: int, generation: int, state: int) -> None:
        self._bank, self._slot, self._generation, self._state = bank, slot, generation, state
        self.mask = None
        self._find_mask()

    @classmethod
    def of(cls, bank: Bank, state: AutomatonState) -> AutomatonRow:
        """Return the row of a state of one row."""
        return cls(bank, *(int(part) for part in state))

    def advance(self, token: int) -> None:
        """Go on by one token."""
        if self._slot != NEUTRAL:
            self._state = self._bank.automaton(self._slot, self._generation).next(self._state, token)
            self._find_mask()

    def _find_mask(self) -> None:
        if self._slot != NEUTRAL:
            self.mask = self._bank.mask(self._slot, self._generation, self._state)

    @property
    def state(self) -> AutomatonState:
        """The state as tensors, of one row."""
        return AutomatonState(*(torch.tensor([n]) for n in (self._slot, self._generation, self._state)))
