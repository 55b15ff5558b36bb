"""The state of rows under finite automata, with its two operations: advance and mask."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FINISHED, FIRST_STATE
from logitkit.errors import StateFileError
from logitkit.protocol.calls import by_tensors
from logitkit.protocol.context import Context
from logitkit.runtime.bank import NEUTRAL, Bank, Lease
from logitkit.runtime.bank_tables import BankTables, advance_tensors, mask_tensors
from logitkit.runtime.bank_user import BankUser
from logitkit.runtime.row_mask import as_array
from logitkit.runtime.width import check_width

__all__ = ["AutomatonState", "advance", "mask"]


class AutomatonState(NamedTuple):
    """The position of each row: an automaton in the bank, and a state of it.

    Args:
        slot: [B] int64, the slot of the row's automaton in the bank; slot 0 constrains nothing.
        generation: [B] int64, distinguishes a slot's automaton from earlier ones in the same slot.
        state: [B] int64; 0 is dead, 1 is finished.
    """

    slot: Tensor
    generation: Tensor
    state: Tensor

    @classmethod
    def neutral(cls, context: Context) -> AutomatonState:
        """Return the state of rows without a constraint."""
        values = (NEUTRAL, 0, FIRST_STATE)
        return cls(*(torch.full((context.batch_size,), v, dtype=torch.int64, device=context.device) for v in values))

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
        slots, generations = [NEUTRAL], [0]
        # A neutral row needs a state that is neither dead nor finished.
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


def advance(bank: Bank, state: AutomatonState, tokens: Tensor) -> Tensor:
    """Return the states of the automata after tokens, [B] int64, by tensors alone.

    Args:
        bank: The bank that the slots refer to.
        state: The state of B rows; a row whose automaton no longer exists becomes dead.
        tokens: [B] or [B, T] int64, -1 = none.
    """
    tables, now = bank.tables_on(state.state.device), state.state
    for column in tokens.unbind(1) if tokens.dim() == 2 else (tokens,):
        now = advance_tensors(tables, state.slot, state.generation, now, column)
    return now


def advance_rows(bank: Bank, state: AutomatonState, tokens: Tensor) -> Tensor:
    """Advance row by row on the host, which for a few rows is faster than any tensor operation; see `advance`.

    Raises:
        StaleAutomaton: A slot's automaton no longer exists.
    """
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
        tables = bank.tables_on(logits.device)
        check_tables(tables, logits)
        return mask_tensors(tables, state.slot, state.generation, state.state, logits)
    return mask_rows(bank, state, logits)


def mask_rows(bank: Bank, state: AutomatonState, logits: Tensor) -> Tensor:
    """Mask row by row, each in the cheapest way for its state, with cached masks for visited states."""
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


def check_tables(tables: BankTables, logits: Tensor) -> None:
    """Raise `VocabularyError` if the width of the logits does not fit the vocabulary of a bank's tables."""
    # Without any automaton, the tables have space for one id and all rows are neutral.
    if tables.class_of.shape[1] > 1:
        check_width(tables.class_of.shape[1], logits.shape[1])
