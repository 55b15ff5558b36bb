"""The state of rows under finite automata, and its two operations on either path."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.automata.bank import NEUTRAL, Bank, Lease
from logitkit.automata.bank_tables import advance_tensors, mask_tensors
from logitkit.automata.byte_dfa import FIRST_STATE
from logitkit.automata.row_mask import as_array
from logitkit.errors import StateFileError, VocabularyError
from logitkit.tensor_path import by_tensors

if TYPE_CHECKING:
    from logitkit.constraints.constraint import AutomatonConstraint

__all__ = ["AutomatonState", "advance", "mask"]


class AutomatonState(NamedTuple):
    """Where each row is: in which automaton of the bank, and in which state of it.

    Args:
        slot: [B] int64, place of the row's automaton in the bank; 0 constrains nothing.
        generation: [B] int64, tells a slot's automaton from those that had the slot before.
        state: [B] int64; 0 is dead, 1 is finished.
    """

    slot: Tensor
    generation: Tensor
    state: Tensor

    def to_portable(self, processor: AutomatonConstraint) -> tuple[AutomatonState, list[str]]:
        """Return a state whose slots count automata from 1, and the content keys of these."""
        bank = processor.bank
        number: dict[str, int] = {}
        slots = [
            NEUTRAL
            if slot == NEUTRAL
            else number.setdefault(bank.automaton(slot, generation).content_key, len(number) + 1)
            for slot, generation in zip(self.slot.tolist(), self.generation.tolist(), strict=True)
        ]
        slot = torch.tensor(slots, dtype=torch.int64)
        return AutomatonState(slot, torch.zeros_like(slot), self.state), list(number)

    def from_portable(self, notes: object, processor: AutomatonConstraint, device: torch.device) -> AutomatonState:
        """Return the state with the places that the automata named in the notes have in the bank of the processor.

        Raises:
            StateFileError: An automaton is not there, none is the processor's own, or the state is none of its automaton.
        """
        keys = notes if isinstance(notes, list) else [notes]
        leases = [_find(key, processor, device) for key in keys]
        own = processor.automaton.content_key
        if keys and own not in keys:
            # It would continue, but under constraints that this processor does not stand for.
            raise StateFileError(
                f"no row of it is of this {type(processor).__name__}, whose automaton is {own!r}: its automata are "
                f"{', '.join(map(repr, keys))}; load it with a processor that one of these belongs to"
            )
        slots, generations = [NEUTRAL], [0]
        # A neutral row has no state to be in, but one that is neither dead nor finished.
        states = [FIRST_STATE + 1]
        for lease in leases:
            slots.append(lease.slot)
            generations.append(lease.generation)
            states.append(lease.automaton.states)
        for row, (place, state) in enumerate(zip(self.slot.tolist(), self.state.tolist(), strict=True)):
            if not 0 <= place < len(slots):
                raise StateFileError(f"row {row} has automaton {place} of {len(slots) - 1}")
            if not 0 <= state < states[place]:
                raise StateFileError(f"row {row} is in state {state} of an automaton with {states[place]} states")
        return AutomatonState(torch.tensor(slots)[self.slot], torch.tensor(generations)[self.slot], self.state)


def _find(key: object, processor: AutomatonConstraint, device: torch.device) -> Lease:
    own = processor.lease()
    if key == own.automaton.content_key:
        return own
    lease = processor.bank.find(key) if isinstance(key, str) else None
    if lease is None:
        raise StateFileError(
            f"automaton {key!r} is neither that of this {type(processor).__name__}, "
            f"{own.automaton.content_key!r}, nor another in use on {device}; make the processor that it "
            "belongs to, with the same arguments, vocabulary and version of logitkit, and call its init_state before"
        )
    return lease


def advance(bank: Bank, state: AutomatonState, tokens: Tensor) -> AutomatonState:
    """Return the state after tokens.

    Args:
        bank: The bank that the slots refer to.
        state: The state of B rows.
        tokens: [B] or [B, T] int64, -1 = none.

    Raises:
        StaleAutomaton: A slot's automaton is gone (on the CPU; on a device its rows die).
    """
    if by_tensors(state.state):
        tables, now = bank.tables_on(state.state.device), state.state
        for column in tokens.unbind(1) if tokens.dim() == 2 else (tokens,):
            now = advance_tensors(tables, state.slot, state.generation, now, column)
        return state._replace(state=now)
    return AutomatonState(state.slot, state.generation, advance_rows(bank, state, tokens))


def advance_rows(bank: Bank, state: AutomatonState, tokens: Tensor) -> Tensor:
    """Advance row by row on the host: for few rows it is faster than any tensor operation."""
    now = state.state.tolist()
    runs = tokens.tolist() if tokens.dim() == 2 else [[t] for t in tokens.tolist()]
    for row, (slot, generation, run) in enumerate(
        zip(state.slot.tolist(), state.generation.tolist(), runs, strict=True)
    ):
        if slot == NEUTRAL:
            continue
        step, current = bank.automaton(slot, generation).next, now[row]
        for token in run:
            if current < FIRST_STATE:
                break
            current = step(current, token)
        now[row] = current
    return torch.from_numpy(np.array(now, np.int64))  # three times as fast as torch.tensor


def mask(bank: Bank, state: AutomatonState, logits: Tensor) -> Tensor:
    """Return the logits with every illegal token at -inf, in place where that is faster.

    Args:
        bank: The bank that the slots refer to.
        state: The state of B rows.
        logits: [B, W] floating point, W at least the size of the vocabulary; columns behind it are masked.

    Raises:
        StaleAutomaton: A slot's automaton is gone (on the CPU; on a device its rows die).
        VocabularyError: The logits have fewer columns than the vocabulary has ids.
    """
    if by_tensors(logits):
        tables = bank.tables_on(logits.device)
        check_width(tables.class_of.shape[1], logits)
        return mask_tensors(tables, state.slot, state.generation, state.state, logits)
    return mask_rows(bank, state, logits)


def mask_rows(bank: Bank, state: AutomatonState, logits: Tensor) -> Tensor:
    """Mask row by row, each in the cheapest way for its state; the masks of visited states are cached."""
    slots, generations, states = state.slot.tolist(), state.generation.tolist(), state.state.tolist()
    array, never, zero = as_array(logits)
    width = array.shape[1]
    for row, (slot, generation, current) in enumerate(zip(slots, generations, states, strict=True)):
        if slot == NEUTRAL:
            continue
        found = bank.mask(slot, generation, current)
        if width < found.size:
            check_width(found.size, logits)
        found.apply(array[row], never, zero)
    return logits


def check_width(size: int, logits: Tensor) -> None:
    """Raise `VocabularyError` if the logits have fewer columns than the vocabulary has ids."""
    if logits.shape[1] < size:
        raise VocabularyError(
            f"the logits have {logits.shape[1]} columns, but the vocabulary has {size} ids: it belongs to another model"
        )
