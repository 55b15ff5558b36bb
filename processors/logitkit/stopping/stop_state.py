"""The state of rows that search for stops, and its transitions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FINISHED, FIRST_STATE
from logitkit.errors import StateFileError, VocabularyError
from logitkit.runtime.automaton_registry import NEUTRAL
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.registry_tables import RegistryTables, advance_tensors
from logitkit.stopping.stop_automaton import FIRED, StopAutomaton
from logitkit.stopping.stop_registry import StopRegistry

__all__ = ["NO_TOKEN", "StopState"]

NO_TOKEN = -1


class StopState(NamedTuple):
    """How much of a stop each row ends with; after a stop is complete, the token that completed it and the state before.

    Which stop it was, and where in the token it lies, is computed on request.

    Args:
        at: The row's automaton and its state: 0 when a stop is complete, 1 after EOS.
        before: [B] int64, the state before the completing token.
        token: [B] int64, the completing token, or -1.
        tokens: [B] int64, output tokens before the completing token, or so far; negative while the prompt is read.
        text: [B] int64, bytes of text in these tokens.
    """

    at: AutomatonState
    before: Tensor
    token: Tensor
    tokens: Tensor
    text: Tensor

    @classmethod
    def before_any_stop(cls, at: AutomatonState) -> StopState:
        """Return the state of rows without any tokens, whose automata are in their start states."""
        none = torch.zeros_like(at.state)
        return cls(at, none + FIRST_STATE, none + NO_TOKEN, none, none)

    def to_portable(self, processor: Any) -> tuple[StopState, None]:
        """Return the state itself; `at` replaces its own references to this process."""
        return self, None

    def from_portable(self, notes: object, processor: Any, device: torch.device) -> StopState:
        """Return the state itself, if it is possible in its automata.

        Raises:
            StateFileError: The completing token of a row does not complete any stop.
        """
        columns = (*self.at, self.before, self.token)
        for row, values in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            slot, generation, state, before, token = values
            if slot == NEUTRAL or (state != FIRED and token == NO_TOKEN):
                continue
            automaton = processor.registry.automaton(slot, generation)
            known = 0 <= token < processor.vocabulary.size and FIRST_STATE <= before < automaton.states
            if state >= FIRST_STATE or not known or automaton.occurrence(before, token) is None:
                raise StateFileError(f"row {row} has the token {token}, which completes no stop after state {before}")
        return self

    def advance_rows(self, registry: StopRegistry, tokens: Tensor, prompt: bool = False) -> StopState:
        """Return the state after tokens, computed byte by byte.

        Args:
            registry: The registry that the slots refer to.
            tokens: [B] or [B, T] int64, -1 = none.
            prompt: Whether the tokens belong to the prompt, in which EOS ends nothing and ids outside the vocabulary may occur.

        Raises:
            StaleAutomaton: A slot's automaton no longer exists.
            VocabularyError: An output token is not in the vocabulary.
        """
        runs = tokens.tolist() if tokens.dim() == 2 else [[t] for t in tokens.tolist()]
        state, count, text = self.at.state.tolist(), self.tokens.tolist(), self.text.tolist()
        completed: dict[int, tuple[int, int]] = {}
        slots, generations = self.at.slot.tolist(), self.at.generation.tolist()
        for row, (slot, generation, run) in enumerate(zip(slots, generations, runs, strict=True)):
            if slot == NEUTRAL:
                continue
            automaton, now = registry.automaton(slot, generation), (state[row], count[row], text[row])
            (state[row], count[row], text[row]), found = _after(automaton, registry.length, now, run, prompt)
            if found is not None:
                completed[row] = found
        before, token = self.before, self.token
        if completed:
            before, token = before.clone(), token.clone()
            for row, found in completed.items():
                before[row], token[row] = found
        after = (torch.from_numpy(np.array(column, np.int64)) for column in (state, count, text))
        return StopState(self.at._replace(state=next(after)), before, token, *after)

    def advance_tensors(
        self, tables: RegistryTables, lengths: Tensor, token: Tensor, prompt: bool = False
    ) -> StopState:
        """Return the state after one token per row, with tensors only.

        Args:
            tables: The tables of the registry.
            lengths: [V] int32, the bytes that each token adds.
            token: [B] int64, -1 = none; an id outside the vocabulary has no text.
            prompt: Whether the token belongs to the prompt, in which EOS ends nothing.
        """
        slot, generation, state = self.at
        constrained = slot != NEUTRAL
        known = torch.where((token >= 0) & (token < lengths.shape[0]), token, NO_TOKEN)
        after = advance_tensors(tables, slot, generation, state, known)
        live = constrained & (state >= FIRST_STATE)
        fires = live & (known >= 0) & (after == FIRED)
        if prompt:
            after = torch.where(live & (after == FINISHED), state, after)
        else:
            ends = constrained & (after == FIRED) & (known[:, None] == tables.eos_ids).any(1)
            after = torch.where(ends, FINISHED, after)
        goes_on = live & (token >= 0) & ~fires
        return StopState(
            self.at._replace(state=after),
            torch.where(fires, state, self.before),
            torch.where(fires, known, self.token),
            self.tokens + goes_on,
            self.text + torch.where(goes_on & (known >= 0), lengths[known.clamp(min=0)], 0),
        )


def _after(
    automaton: StopAutomaton, lengths: list[int], now: tuple[int, int, int], run: list[int], prompt: bool
) -> tuple[tuple[int, int, int], tuple[int, int] | None]:
    """Return the state, tokens and bytes of one row; if it reached a stop, also the state before and the completing token."""
    state, count, text = now
    completed = None
    step, known = automaton.next, len(lengths)
    for token in run:
        if token < 0:
            continue
        if token >= known:
            if not prompt:
                raise VocabularyError(
                    f"a row has the token {token}, but the vocabulary has ids from 0 to {known - 1}: it belongs to another model"
                )
            count += state >= FIRST_STATE
            continue
        if state >= FIRST_STATE:
            after = step(state, token)
            if after == FIRED:
                completed = state, token
            else:
                count += 1
                text += lengths[token]
            state = state if prompt and after == FINISHED else after
        if state == FIRED and not prompt and automaton.is_eos(token):
            state = FINISHED
    return (state, count, text), completed
