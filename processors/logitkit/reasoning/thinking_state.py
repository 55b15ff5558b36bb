"""The state of rows with a thinking budget, and its transitions."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FINISHED, FIRST_STATE
from logitkit.errors import StateFileError, VocabularyError
from logitkit.parameters import Integer
from logitkit.reasoning.section_states import SectionStates
from logitkit.runtime.automaton_registry import NEUTRAL, AutomatonRegistry
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.registry_tables import RegistryTables, advance_tensors

__all__ = ["ThinkingState"]


class ThinkingState(NamedTuple):
    """Whether each row is in a section, and for how long it has been.

    Args:
        at: The row's automaton and its state.
        spent: [B] int64, output tokens since the section began; outside a section 0, unless the row ended while the end of its
            section was forced.
        budget: [B] int64, the number of tokens that a section may have.
        inside: [B] int64, the number of automaton states inside a section, which come first.
    """

    at: AutomatonState
    spent: Annotated[Tensor, Integer(0)]
    budget: Annotated[Tensor, Integer(0)]
    inside: Annotated[Tensor, Integer(1)]

    def to_portable(self, processor: Any) -> tuple[ThinkingState, None]:
        """Return the state itself; `at` replaces its own references to this process."""
        return self, None

    def from_portable(self, notes: object, processor: Any, device: torch.device) -> ThinkingState:
        """Return the state itself, if its automata have the states that it uses.

        Raises:
            StateFileError: They do not.
        """
        columns = (*self.at, self.inside)
        for row, (slot, generation, state, inside) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            if slot == NEUTRAL:
                continue
            sections: SectionStates[int] = SectionStates(inside)
            states = processor.registry.automaton(slot, generation).states
            if states <= sections.outside or sections.is_looked_up(state):
                raise StateFileError(
                    f"row {row} is in state {state} of an automaton without {inside} states of a section"
                )
        return self

    @property
    def is_inside(self) -> Tensor:
        """[B] bool, whether each row is in a section."""
        return SectionStates(self.inside).is_inside(self.at.state) & (self.at.slot != NEUTRAL)

    @property
    def is_forced(self) -> Tensor:
        """[B] bool, whether each row may only complete the end marker."""
        return self.is_inside & (self.spent >= self.budget)

    @property
    def is_cut(self) -> Tensor:
        """[B] bool, whether each row ended while the end of its section was forced."""
        return (self.at.state == FINISHED) & (self.spent > 0) & (self.at.slot != NEUTRAL)

    def advance_rows(
        self, registry: AutomatonRegistry, size: int, tokens: Tensor, prompt: bool = False
    ) -> ThinkingState:
        """Return the state after tokens, row by row on the host.

        Args:
            registry: The registry that the slots refer to.
            size: The number of ids of the vocabulary.
            tokens: [B] or [B, T] int64, -1 = none.
            prompt: Whether the tokens belong to the prompt, in which EOS ends nothing and ids outside the vocabulary may occur.

        Raises:
            StaleAutomaton: A slot's automaton no longer exists.
            VocabularyError: An output token is not in the vocabulary.
        """
        runs = tokens.tolist() if tokens.dim() == 2 else [[t] for t in tokens.tolist()]
        states, spents = self.at.state.tolist(), self.spent.tolist()
        columns = (self.at.slot, self.at.generation, self.inside, self.budget)
        for row, (slot, generation, inside, budget) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            if slot == NEUTRAL:
                continue
            sections: SectionStates[int] = SectionStates(inside)
            step, is_inside = registry.automaton(slot, generation).next, sections.is_inside
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
                    if not is_inside(before):
                        spent = spent if before == FINISHED else 0
                    elif state == FINISHED:
                        spent = max(spent, 1) if spent >= budget else 0
                    else:
                        spent = spent + 1 if is_inside(state) else 0
            states[row], spents[row] = state, spent
        after, counted = (torch.from_numpy(np.array(column, np.int64)) for column in (states, spents))
        return self._replace(at=self.at._replace(state=after), spent=counted)

    def advance_tensors(self, tables: RegistryTables, size: int, token: Tensor, prompt: bool = False) -> ThinkingState:
        """Return the state after one token per row, [B] int64, with tensors only; an id outside the vocabulary has no text."""
        slot, generation, before = self.at
        token = torch.where((token >= 0) & (token < size), token, -1)
        state = advance_tensors(tables, slot, generation, before, token)
        if prompt:
            state = torch.where((state == FINISHED) & (before >= FIRST_STATE), before, state)
        after = self._replace(at=self.at._replace(state=state))
        moves = (token >= 0) & (slot != NEUTRAL)
        spent = torch.where(self.is_inside & after.is_inside, self.spent + 1, 0)
        spent = torch.where(self.is_forced & (state == FINISHED), self.spent.clamp(min=1), spent)
        spent = torch.where(before == FINISHED, self.spent, spent)
        return after._replace(spent=torch.where(moves, spent, self.spent))
