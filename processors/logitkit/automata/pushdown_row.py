"""One row under a pushdown automaton."""

from __future__ import annotations

import torch

from logitkit.automata.automaton_state import AutomatonState
from logitkit.automata.bank import NEUTRAL
from logitkit.automata.byte_dfa import FIRST_STATE
from logitkit.automata.lone_row import LoneRow
from logitkit.automata.packed_stacks import rows_of, stacks_of
from logitkit.automata.pushdown_automaton import PushdownAutomaton
from logitkit.automata.pushdown_bank import PushdownBank
from logitkit.automata.pushdown_state import PushdownState

__all__ = ["PushdownRow"]


class PushdownRow(LoneRow):
    """A row of a `PushdownState`.

    Args:
        bank: The bank that the state refers to.
        state: The state of one row.
    """

    __slots__ = ("_bank", "_depth", "_generation", "_left", "_slot", "_stack", "_state")

    def __init__(self, bank: PushdownBank, state: PushdownState) -> None:
        self._bank = bank
        self._slot, self._generation, self._state = (int(part) for part in state.at)
        (self._stack,) = rows_of(state.stack)
        self._depth, self._left = state.stack.shape[1], int(state.left)
        self.mask = None
        if self._slot != NEUTRAL:
            self._find_mask(bank.pushdown(self._slot, self._generation))

    def advance(self, token: int) -> None:
        """Go on by one token."""
        if self._slot == NEUTRAL:
            return
        automaton = self._bank.pushdown(self._slot, self._generation)
        if self._state >= FIRST_STATE:
            self._state, self._stack = automaton.step(self._state, self._stack, token)
            self._left -= self._left > 0
        self._find_mask(automaton)

    def _find_mask(self, automaton: PushdownAutomaton) -> None:
        place = automaton.place(self._state, self._stack, self._left)
        self.mask = self._bank.mask(self._slot, self._generation, place)

    @property
    def state(self) -> PushdownState:
        """The state as tensors, of one row."""
        at = AutomatonState(*(torch.tensor([n]) for n in (self._slot, self._generation, self._state)))
        return PushdownState(at, stacks_of([self._stack], self._depth), torch.tensor([self._left]))
