"""The state of rows under automata, with its two operations on the host for rows without stacks: advance and mask."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FINISHED, FIRST_STATE
from logitkit.errors import StateFileError
from logitkit.protocol.calls import by_tensors
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.runtime.bank import NEUTRAL, Bank, Lease
from logitkit.runtime.bank_tables import mask_tensors
from logitkit.runtime.bank_user import BankUser
from logitkit.runtime.row_mask import as_array
from logitkit.runtime.width import check_width

__all__ = ["AutomatonState", "advance_rows", "mask", "mask_rows"]


class AutomatonState(NamedTuple):
    """The position of each row: an automaton in the bank, and a state of it.

    Args:
        slot: [B] int64, the slot of the row's automaton in the bank; slot 0 constrains nothing.
        generation: [B] int64, distinguishes a slot's automaton from earlier ones in the same slot.
        state: [B] int64; 0 is dead, 1 is finished. Its upper half is a count, where characters are counted.
    """

    slot: Tensor
    generation: Tensor
    state: Tensor

    @classmethod
    def neutral(cls, context: Context) -> AutomatonState:
        """Return the state of rows without a constraint."""
        return cls(*(per_row(context, value) for value in (NEUTRAL, 0, FIRST_STATE)))

    @classmethod
    def start(cls, processor: BankUser, context: Context) -> AutomatonState:
        """Return the state of rows that start in the automaton of a processor."""
        lease = processor.lease()
        return cls(*(per_row(context, value) for value in (lease.slot, lease.generation, processor.automaton.start)))

    def finished(self, rows: Tensor) -> AutomatonState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        return self._replace(state=torch.where(rows, FINISHED, self.state))

    def to_portable(self, processor: BankUser) -> tuple[AutomatonState, list[str]]:
        """Return a state whose slots number the automata from 1, and the content keys of the automata."""
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

    def from_portable(self, notes: object, processor: BankUser, device: torch.device) -> AutomatonState:
        """Return the state with the automata named in the notes, in their slots of the processor's bank.

        Raises:
            StateFileError: An automaton is missing, none belongs to the processor, or its automaton does not have the state.
        """
        keys = notes if isinstance(notes, list) else [notes]
        leases = [_find(key, processor, device) for key in keys]
        own = processor.automaton.content_key
        if keys and own not in keys:
            # It could continue, but under constraints that do not belong to this processor.
            raise StateFileError(
                f"none of its rows belongs to this {type(processor).__name__}, whose automaton is {own!r}: its automata are "
                f"{', '.join(map(repr, keys))}; load it with a processor that owns one of these"
            )
        slots = [NEUTRAL, *(lease.slot for lease in leases)]
        generations = [0, *(lease.generation for lease in leases)]
        # A neutral row needs a state that is neither dead nor finished.
        states = [FIRST_STATE + 1, *(lease.automaton.states for lease in leases)]
        for row, (place, state) in enumerate(zip(self.slot.tolist(), self.state.tolist(), strict=True)):
            if not 0 <= place < len(slots):
                raise StateFileError(f"row {row} has automaton {place} of {len(slots) - 1}")
            if not (leases[place - 1].automaton.has_state(state) if place else 0 <= state < states[0]):
                raise StateFileError(f"row {row} is in state {state} of an automaton with {states[place]} states")
        return AutomatonState(torch.tensor(slots)[self.slot], torch.tensor(generations)[self.slot], self.state)


def _find(key: object, processor: BankUser, device: torch.device) -> Lease:
    own = processor.lease()
    if key == own.automaton.content_key:
        return own
    lease = processor.bank.find(key) if isinstance(key, str) else None
    if lease is None:
        raise StateFileError(
            f"automaton {key!r} does not belong to this {type(processor).__name__}, whose automaton is "
            f"{own.automaton.content_key!r}, and is not in use on {device}; create the processor that it "
            "belongs to, with the same arguments, vocabulary and version of logitkit, and call its init_state first"
        )
    return lease


def advance_rows(bank: Bank, state: AutomatonState, tokens: Tensor) -> Tensor:
    """Return the states of the automata after tokens, [B] int64, row by row on the host.

    For a few rows, this is faster than any tensor operation.

    Args:
        bank: The bank that the slots refer to.
        state: The state of B rows.
        tokens: [B] or [B, T] int64, -1 = none.

    Raises:
        StaleAutomaton: A slot's automaton no longer exists.
    """
    now = state.state.tolist()
    runs = tokens.tolist() if tokens.dim() == 2 else [[t] for t in tokens.tolist()]
    slots, generations = state.slot.tolist(), state.generation.tolist()
    for row, (slot, generation, run) in enumerate(zip(slots, generations, runs, strict=True)):
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
    """Return the logits with every illegal token at -inf, in place if that is faster.

    Args:
        bank: The bank that the slots refer to.
        state: The state of B rows.
        logits: [B, W] floating point, W at least the size of the vocabulary; columns beyond it are masked.

    Raises:
        StaleAutomaton: A slot's automaton no longer exists (on the CPU; elsewhere its rows become dead).
        VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
    """
    if by_tensors(logits):
        return mask_tensors(bank.tables_on(logits.device), *state, logits)
    return mask_rows(bank, state, logits)


def mask_rows(bank: Bank, state: AutomatonState, logits: Tensor) -> Tensor:
    """Mask row by row, each in the cheapest way for its state, with cached masks for visited states; see `mask`."""
    slots, generations, states = state.slot.tolist(), state.generation.tolist(), state.state.tolist()
    array, never, zero = as_array(logits)
    width = array.shape[1]
    for row, (slot, generation, current) in enumerate(zip(slots, generations, states, strict=True)):
        if slot == NEUTRAL:
            continue
        found = bank.mask(slot, generation, current)
        if width != found.size:
            check_width(found.size, width)
        found.apply(array[row], never, zero)
    return logits
