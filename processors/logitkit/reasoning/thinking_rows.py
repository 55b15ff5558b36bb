"""How tokens change the state of rows with a thinking budget, and what their masks are, on the host.

Both go row by row, over Python numbers. For a few rows, this is faster than any tensor operation, and most rows have no mask most
of the time.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FINISHED, FIRST_STATE
from logitkit.errors import VocabularyError
from logitkit.reasoning.section_states import SectionStates
from logitkit.reasoning.thinking_state import NEVER_CLOSED, ThinkingState
from logitkit.runtime.automaton_registry import NEUTRAL, AutomatonRegistry
from logitkit.runtime.automaton_state import AutomatonState

__all__ = ["advance_rows", "masked_rows"]


def advance_rows(
    given: ThinkingState, registry: AutomatonRegistry, size: int, tokens: Tensor, prompt: bool = False
) -> ThinkingState:
    """Return the state after tokens.

    Args:
        given: The state of B rows.
        registry: The registry that the slots refer to.
        size: The number of ids of the vocabulary.
        tokens: [B] or [B, T] int64, -1 = none.
        prompt: Whether the tokens belong to the prompt, in which EOS ends nothing and ids outside the vocabulary may occur.

    Raises:
        StaleAutomaton: A slot's automaton no longer exists.
        VocabularyError: An output token is not in the vocabulary.
    """
    runs = tokens.tolist() if tokens.dim() == 2 else [[t] for t in tokens.tolist()]
    states, spents, closings = given.at.state.tolist(), given.spent.tolist(), given.closed_at.tolist()
    columns = (given.at.slot, given.at.generation, given.inside, given.budget)
    rows = zip(*(c.tolist() for c in columns), given.option_rows(), strict=True)
    for row, (slot, generation, inside, budget, options) in enumerate(rows):
        if slot == NEUTRAL:
            continue
        step, limit = registry.automaton(slot, generation).next, budget + options[0]
        breaks, pauses, after_all = SectionStates(inside, *options[2:]).bounds
        state, spent, closed_at = states[row], spents[row], closings[row]
        for token in runs[row]:
            if token >= size and not prompt:
                raise VocabularyError(
                    f"row {row} has the token {token}, but the vocabulary has ids from 0 to {size - 1}: it belongs to "
                    "another model"
                )
            if not 0 <= token < size:
                continue
            before, state = state, step(state, token)
            if prompt and state == FINISHED:
                state = before
            if before == FINISHED:
                continue
            if not FIRST_STATE <= before < after_all:
                spent, closed_at = 0, NEVER_CLOSED
                continue
            is_grace_over = breaks <= before < pauses and spent >= budget
            if FIRST_STATE <= state < after_all:
                closed_at = min(closed_at, spent) if is_grace_over else closed_at
                spent += before < pauses and state < pauses
            else:
                is_forced = before < pauses and (spent >= limit or spent >= closed_at or is_grace_over)
                spent = max(spent, 1) if is_forced and state == FINISHED else 0
                closed_at = NEVER_CLOSED
        states[row], spents[row], closings[row] = state, spent, closed_at
    after, counted, closed = (torch.from_numpy(np.array(column, np.int64)) for column in (states, spents, closings))
    return given._replace(at=given.at._replace(state=after), spent=counted, closed_at=closed)


def masked_rows(given: ThinkingState) -> AutomatonState | None:
    """Return the states whose masks count, neutral in rows without a mask; None if no row has one."""
    slots, states, masks = given.at.slot.tolist(), given.at.state.tolist(), False
    columns = (given.spent, given.budget, given.inside, given.closed_at)
    rows = zip(slots, states, *(c.tolist() for c in columns), given.option_rows(), strict=True)
    for row, (slot, state, spent, budget, inside, closed_at, options) in enumerate(rows):
        if slot == NEUTRAL or state < FIRST_STATE:
            masks = masks or slot != NEUTRAL
            continue
        grace, min_tokens, *layout = options
        slots[row] = NEUTRAL
        if spent < budget and spent < closed_at and spent >= min_tokens:
            continue
        sections: SectionStates[int] = SectionStates(inside, *layout)
        is_due = spent >= budget + grace or spent >= closed_at or (spent >= budget and sections.is_break(state))
        if is_due and sections.is_open(state):
            now = sections.forced(state)
        elif sections.held and spent < min_tokens and sections.is_inside(state):
            now = sections.holding(state)
        else:
            continue
        slots[row], states[row], masks = slot, now, True
    if not masks:
        return None
    looked_up = [torch.from_numpy(np.array(column, np.int64)) for column in (slots, states)]
    return AutomatonState(looked_up[0], given.at.generation, looked_up[1])
