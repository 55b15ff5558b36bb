"""The state of rows that think, and how it goes on, on either path."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.automata.automaton_state import AutomatonState
from logitkit.automata.bank import NEUTRAL, Bank
from logitkit.automata.bank_tables import BankTables, advance_tensors
from logitkit.automata.byte_dfa import FINISHED, FIRST_STATE
from logitkit.errors import StateFileError, VocabularyError
from logitkit.reasoning.thinking_automaton import INSIDE

if TYPE_CHECKING:
    from logitkit.reasoning.thinking_budget import ThinkingBudget

__all__ = ["ThinkingState"]


class ThinkingState(NamedTuple):
    """Whether each row is in a section, and for how long.

    Args:
        at: The row's automaton, and the state in it.
        spent: [B] int64, output tokens since the section began; 0 outside.
        budget: [B] int64, tokens that it may have.
        inside: [B] int64, number of the automaton's states inside a section, which are its first.
    """

    at: AutomatonState
    spent: Tensor
    budget: Tensor
    inside: Tensor

    def problem(self) -> str | None:
        """Say what is impossible about values read from a file, or return None."""
        if bool((self.spent < 0).any()) or bool((self.budget < 0).any()) or bool((self.inside < 1).any()):
            return "a count or a budget is below 0, or a row has no states inside a section"
        return None

    def to_portable(self, processor: ThinkingBudget) -> tuple[ThinkingState, None]:
        """Return the state itself: what refers to this process is in `at`, which sees to that."""
        return self, None

    def from_portable(self, notes: object, processor: ThinkingBudget, device: torch.device) -> ThinkingState:
        """Return the state itself, if its automata have the states that it speaks of.

        Raises:
            StateFileError: They have not.
        """
        columns = (*self.at, self.inside)
        for row, (slot, generation, state, inside) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            if slot == NEUTRAL:
                continue
            outside = INSIDE + 2 * inside + 1
            if processor.bank.automaton(slot, generation).states <= outside or INSIDE + inside <= state < outside:
                raise StateFileError(
                    f"row {row} is in state {state} of an automaton without {inside} states of a section"
                )
        return self

    @property
    def is_inside(self) -> Tensor:
        """[B] bool: whether each row is in a section."""
        return (self.at.state >= INSIDE) & (self.at.state < INSIDE + self.inside) & (self.at.slot != NEUTRAL)

    @property
    def is_forced(self) -> Tensor:
        """[B] bool: whether each row has nothing left to say but the end of its section."""
        return self.is_inside & (self.spent >= self.budget)

    def advance_rows(self, bank: Bank, size: int, tokens: Tensor, prompt: bool = False) -> ThinkingState:
        """Return the state after tokens, row by row on the host.

        Args:
            bank: The bank that the slots refer to.
            size: Ids of the vocabulary.
            tokens: [B] or [B, T] int64, -1 = none.
            prompt: Whether they are of the prompt, where EOS ends nothing and ids that the vocabulary lacks may occur.

        Raises:
            StaleAutomaton: A slot's automaton is gone.
            VocabularyError: An output token is none of the vocabulary.
        """
        runs = tokens.tolist() if tokens.dim() == 2 else [[t] for t in tokens.tolist()]
        states, spents = self.at.state.tolist(), self.spent.tolist()
        columns = (self.at.slot, self.at.generation, self.inside)
        for row, (slot, generation, inside) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            if slot == NEUTRAL:
                continue
            step, behind = bank.automaton(slot, generation).next, INSIDE + inside
            state, spent = states[row], spents[row]
            for token in runs[row]:
                if token >= size and not prompt:
                    raise VocabularyError(
                        f"row {row} has the token {token}, but the vocabulary has ids from 0 to {size - 1}: it belongs to "
                        "another model"
                    )
                if 0 <= token < size:
                    before, state = state, step(state, token)
                    if prompt and state == FINISHED:
                        state = before
                    spent = spent + 1 if INSIDE <= before < behind and INSIDE <= state < behind else 0
            states[row], spents[row] = state, spent
        after, counted = (torch.from_numpy(np.array(column, np.int64)) for column in (states, spents))
        return self._replace(at=self.at._replace(state=after), spent=counted)

    def advance_tensors(self, tables: BankTables, size: int, token: Tensor, prompt: bool = False) -> ThinkingState:
        """Return the state after one token a row, [B] int64, with tensors alone; an id that the vocabulary lacks has no text."""
        slot, generation, before = self.at
        token = torch.where((token >= 0) & (token < size), token, -1)
        state = advance_tensors(tables, slot, generation, before, token)
        if prompt:
            state = torch.where((state == FINISHED) & (before >= FIRST_STATE), before, state)
        after = self._replace(at=self.at._replace(state=state))
        moves = (token >= 0) & (slot != NEUTRAL)
        spent = torch.where(self.is_inside & after.is_inside, self.spent + 1, 0)
        return after._replace(spent=torch.where(moves, spent, self.spent))
