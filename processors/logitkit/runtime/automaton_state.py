"""The part of the state of rows that all automata have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FINISHED, FIRST_STATE
from logitkit.errors import BatchMismatch, StateFileError
from logitkit.protocol.calls import by_tensors
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.runtime.automaton_registry import MIXED_REGISTRIES, NEUTRAL, AutomatonHandle
from logitkit.runtime.constraint_row import ConstraintRow, NeutralRow
from logitkit.runtime.positions import Numbers, RowPositions
from logitkit.runtime.registry_user import RegistryUser
from logitkit.runtime.slot_generation import SlotGeneration

__all__ = ["AutomatonState", "handles_of", "numbered_slots"]


class AutomatonState(NamedTuple):
    """The position of each row: an automaton in the registry, and a state of it.

    Args:
        slot: [B] int64, the slot of the row's automaton in the registry; slot 0 constrains nothing.
        generation: [B] int64, distinguishes a slot's automaton from earlier ones in the same slot.
        state: [B] int64; 0 is dead, 1 is finished. Its upper half is a count, where characters are counted.
    """

    slot: Tensor
    generation: Tensor
    state: Tensor

    @property
    def runs_on_host(self) -> bool:
        """Whether steps run on the host, wherever the tensors are."""
        return False

    @classmethod
    def neutral(cls, context: Context) -> AutomatonState:
        """Return the state of rows without a constraint."""
        return cls(*(per_row(context, value) for value in (NEUTRAL, SlotGeneration.NEUTRAL, FIRST_STATE)))

    @classmethod
    def start(cls, processor: RegistryUser, context: Context) -> AutomatonState:
        """Return the state of rows that start in the automaton of a processor."""
        handle = processor.handle()
        return cls(*(per_row(context, value) for value in (handle.slot, handle.generation, processor.automaton.start)))

    @property
    def row_states(self) -> Tensor:
        """[B] int64: 0 where a row is dead, 1 where it is finished, else more."""
        return self.state

    @property
    def slots(self) -> Tensor:
        """[B] int64, the slots of the rows."""
        return self.slot

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors."""
        return tuple(self)

    def host_rows(self, registry: Any) -> list[ConstraintRow]:
        """Return the rows as Python numbers."""
        columns = zip(self.slot.tolist(), self.generation.tolist(), self.state.tolist(), strict=True)
        return [
            NeutralRow(registry, slot, generation, [(state, b"")])
            if slot == NEUTRAL
            else ConstraintRow(registry, slot, generation, state)
            for slot, generation, state in columns
        ]

    def numbers_of(self, rows: Sequence[ConstraintRow]) -> Numbers:
        """Return the states of rows."""
        return ([row.current for row in rows],)

    def with_numbers(self, numbers: Numbers, before: Numbers | None = None) -> AutomatonState:
        """Return the rows in other states; see `RowState`."""
        states = numbers[0]
        if before is not None and states == before[0]:
            return self
        return self._replace(state=torch.tensor(states))

    @property
    def positions(self) -> RowPositions:
        """The positions of the rows as tensors."""
        nothing = self.state.new_zeros((len(self.state), 0), dtype=torch.int32)
        return RowPositions(*self, nothing)

    def at_positions(self, positions: RowPositions) -> AutomatonState:
        """Return the state of the rows at other positions."""
        return self._replace(state=positions.state)

    def finished(self, rows: Tensor) -> AutomatonState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        return self._replace(state=torch.where(rows, FINISHED, self.state))

    def check_joined(self) -> None:
        """Check on the host that all automata are in one registry.

        On an accelerator, this would wait for the device. There, rows of another registry end at their next step.

        Raises:
            BatchMismatch: Some rows are of constraints that may nest, and some of others.
        """
        if by_tensors(self.generation):
            return
        stacked = SlotGeneration.has_stacks(self.generation[self.slot != NEUTRAL])
        if stacked.any() and not stacked.all():
            raise BatchMismatch(f"concatenate got {MIXED_REGISTRIES}")

    def to_portable(self, processor: RegistryUser) -> tuple[AutomatonState, list[str]]:
        """Return a state whose slots number the automata from 1, and the content keys of the automata."""
        slot, keys = numbered_slots(self.slot, self.generation, processor)
        return AutomatonState(slot, torch.zeros_like(slot), self.state), keys

    def from_portable(self, notes: object, processor: RegistryUser, device: torch.device) -> AutomatonState:
        """Return the state with the automata named in the notes, in their slots of the processor's registry.

        Raises:
            StateFileError: An automaton is missing, none belongs to the processor, or its automaton does not have the state.
        """
        handles = handles_of(notes, processor, device)
        slots = [NEUTRAL, *(handle.slot for handle in handles)]
        generations = [SlotGeneration.NEUTRAL, *(handle.generation for handle in handles)]
        # A neutral row needs a state that is neither dead nor finished.
        states = [FIRST_STATE + 1, *(handle.automaton.states for handle in handles)]
        for row, (place, state) in enumerate(zip(self.slot.tolist(), self.state.tolist(), strict=True)):
            if not 0 <= place < len(slots):
                raise StateFileError(f"row {row} has automaton {place} of {len(slots) - 1}")
            if not (handles[place - 1].automaton.has_state(state) if place else 0 <= state < states[0]):
                raise StateFileError(f"row {row} is in state {state} of an automaton with {states[place]} states")
        return AutomatonState(torch.tensor(slots)[self.slot], torch.tensor(generations)[self.slot], self.state)


def numbered_slots(slots: Tensor, generations: Tensor, processor: RegistryUser) -> tuple[Tensor, list[str]]:
    """Return slots of a registry with the automata in them numbered from 1, and the content keys of the automata."""
    number: dict[str, int] = {}
    found = [
        NEUTRAL
        if slot == NEUTRAL
        else number.setdefault(processor.registry.automaton(slot, generation).content_key, len(number) + 1)
        for slot, generation in zip(slots.flatten().tolist(), generations.flatten().tolist(), strict=True)
    ]
    return torch.tensor(found, dtype=torch.int64).reshape(slots.shape), list(number)


def handles_of(notes: object, processor: RegistryUser, device: torch.device) -> list[AutomatonHandle]:
    """Return the handles of the automata that the notes name.

    Raises:
        StateFileError: An automaton is missing, or none belongs to the processor.
    """
    keys = notes if isinstance(notes, list) else [notes]
    if not keys:
        return []
    if processor.automaton is None:
        raise StateFileError(
            f"its rows have automata, but this {type(processor).__name__} has none; load it with a processor that owns one of "
            f"these: {', '.join(map(repr, keys))}"
        )
    handles = [_find(key, processor, device) for key in keys]
    own = processor.automaton.content_key
    if own not in keys:
        # It could continue, but under constraints that do not belong to this processor.
        raise StateFileError(
            f"none of its rows belongs to this {type(processor).__name__}, whose automaton is {own!r}: its automata are "
            f"{', '.join(map(repr, keys))}; load it with a processor that owns one of these"
        )
    return handles


def _find(key: object, processor: RegistryUser, device: torch.device) -> AutomatonHandle:
    own = processor.handle()
    if key == own.automaton.content_key:
        return own
    handle = processor.registry.find(key) if isinstance(key, str) else None
    if handle is None:
        raise StateFileError(
            f"automaton {key!r} does not belong to this {type(processor).__name__}, whose automaton is "
            f"{own.automaton.content_key!r}, and is not in use on {device}; create the processor that it "
            "belongs to, with the same arguments, vocabulary and version of logitkit, and call its init_state first"
        )
    return handle
