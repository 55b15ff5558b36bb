"""The state of rows that may be in several configurations at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FINISHED, FIRST_STATE
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.compiler.tokens.tables.packed_stacks import FRAME_BYTES
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import StateFileError
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.runtime.automaton_registry import NEUTRAL, AutomatonHandle
from logitkit.runtime.automaton_state import handles_of, numbered_slots
from logitkit.runtime.branching_row import BranchingRow
from logitkit.runtime.constraint_row import Configurations, ConstraintRow, NeutralRow
from logitkit.runtime.positions import Numbers, RowPositions
from logitkit.runtime.slot_generation import SlotGeneration

__all__ = ["Branching", "BranchingState", "handles_of_layers"]


class BranchingState(NamedTuple):
    """The position of each row: up to N configurations, each a state and a stack.

    Args:
        slots: [B, J] int64, the slots in the registry of the layers of each row's automaton, then 0. Slot 0 in the first column
            constrains nothing.
        generations: [B, J] int64, distinguish the slots' automata from earlier ones.
        states: [B, N] int64, the state of each configuration, 1 if finished; 0 where there are fewer. Few frames come first.
        stacks: [B, N, D] int32, the frames of each configuration, outermost first, then 0.
        most: [B] int64, the most configurations that a row keeps.
        narrowed: [B] bool, whether a row once had more, so that it may refuse what the grammar allows.
    """

    slots: Tensor
    generations: Tensor
    states: Tensor
    stacks: Tensor
    most: Tensor
    narrowed: Tensor

    @property
    def runs_on_host(self) -> bool:
        """Whether steps run on the host, wherever the tensors are."""
        return False

    @classmethod
    def neutral(cls, context: Context) -> BranchingState:
        """Return the state of rows without a constraint."""
        slots, generations = (per_row(context, value)[:, None] for value in (NEUTRAL, SlotGeneration.NEUTRAL))
        stacks = torch.zeros((context.batch_size, 1, 0), dtype=torch.int32, device=context.device)
        most, narrowed = per_row(context, 1), per_row(context, 0) > 0
        return cls(slots, generations, per_row(context, FIRST_STATE)[:, None], stacks, most, narrowed)

    @classmethod
    def start(
        cls, automaton: TokenAutomaton, layers: Sequence[AutomatonHandle], most: int, context: Context
    ) -> BranchingState:
        """Return the start state of rows of an automaton, with the handles of its layers and `most` configurations at most."""
        slots, generations = (
            torch.stack([per_row(context, getattr(handle, name)) for handle in layers], 1)
            for name in ("slot", "generation")
        )
        states = torch.zeros((context.batch_size, most), dtype=torch.int64, device=context.device)
        states[:, 0] = automaton.start
        stacks = torch.zeros((*states.shape, automaton.nesting.max_depth), dtype=torch.int32, device=context.device)
        return cls(slots, generations, states, stacks, per_row(context, most), per_row(context, 0) > 0)

    @property
    def row_states(self) -> Tensor:
        """[B] int64: 0 where a row is dead, 1 where it is finished, else more."""
        return self.states.amax(1)

    @property
    def left(self) -> Tensor:
        """[B] int64, the number of tokens left to each row: not counted."""
        return torch.full_like(self.most, NO_LIMIT)

    def finished(self, rows: Tensor) -> BranchingState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        alone = torch.zeros_like(self.states)
        alone[:, 0] = FINISHED
        stacks = torch.where(rows[:, None, None], 0, self.stacks)
        return self._replace(states=torch.where(rows[:, None], alone, self.states), stacks=stacks)

    @property
    def has_frames(self) -> bool:
        """Whether rows have room for frames: all that may branch have."""
        return True

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors."""
        return tuple(self)

    def host_rows(self, registry: Any) -> list[ConstraintRow]:
        """Return the rows as Python numbers."""
        slots, generations = self.slots[:, 0].tolist(), self.generations[:, 0].tolist()
        columns = zip(
            slots, generations, self._configurations(), self.most.tolist(), self.narrowed.tolist(), strict=True
        )
        return [(NeutralRow if row[0] == NEUTRAL else BranchingRow)(registry, *row) for row in columns]

    def _configurations(self) -> list[Configurations]:
        """Return the configurations of each row."""
        memory = self.stacks.numpy().tobytes()
        _, count, depth = self.stacks.shape
        width, first, found = depth * FRAME_BYTES, 0, list[Configurations]()
        for states in self.states.tolist():
            configurations = enumerate(states, first)
            found.append([(state, memory[at * width : (at + 1) * width]) for at, state in configurations if state])
            first += count
        return found

    def numbers_of(self, rows: Sequence[Any]) -> Numbers:
        """Return the configurations of rows, and whether some were dropped."""
        return [row.configurations for row in rows], [row.narrowed for row in rows]

    def with_numbers(self, numbers: Numbers, before: Numbers | None = None) -> BranchingState:
        """Return the rows in other configurations, each row's in their order; see `RowState`."""
        # Rows have room for far more configurations than they usually have.
        states, stacks = np.zeros(self.states.shape, np.int64), bytearray(self.stacks.nbytes)
        _, count, depth = self.stacks.shape
        width = depth * FRAME_BYTES
        for row, configurations in enumerate(numbers[0]):
            states[row, : len(configurations)] = [state for state, _ in configurations]
            begin = row * count * width
            stacks[begin : begin + len(configurations) * width] = b"".join([stack for _, stack in configurations])
        return self._replace(
            states=torch.from_numpy(states),
            stacks=torch.from_numpy(np.ndarray(self.stacks.shape, np.int32, stacks)),
            narrowed=torch.from_numpy(np.array(numbers[1], np.bool_)),
        )

    @property
    def positions(self) -> RowPositions:
        """The positions of the rows as tensors."""
        slots, generations, states, stacks, most, narrowed = self
        return RowPositions(slots, generations, states, stacks, None, most, narrowed)

    def at_positions(self, positions: RowPositions) -> BranchingState:
        """Return the state of the rows at other positions."""
        assert positions.narrowed is not None
        return self._replace(states=positions.state, stacks=positions.stack, narrowed=positions.narrowed)

    def to_portable(self, processor: Any) -> tuple[BranchingState, list[str]]:
        """Return a state whose slots number the automata from 1, and the content keys of the automata."""
        slots, keys = numbered_slots(self.slots, self.generations, processor)
        return self._replace(slots=slots, generations=torch.zeros_like(slots)), keys

    def from_portable(self, notes: object, processor: Any, device: torch.device) -> BranchingState:
        """Return the state with the automata named in the notes, in their slots of the processor's registry.

        Raises:
            StateFileError: An automaton is missing, none belongs to the processor, or a row is impossible.
        """
        handles = handles_of(notes, processor, device)
        slots = torch.tensor([NEUTRAL, *(handle.slot for handle in handles)])
        generations = torch.tensor([SlotGeneration.NEUTRAL, *(handle.generation for handle in handles)])
        if not bool(((self.slots >= 0) & (self.slots <= len(handles))).all()):
            raise StateFileError(f"a row has an automaton that is not one of {len(handles)}")
        if self.states.shape[1] < 1 or not self.slots.shape[1] or self.stacks.shape[:2] != self.states.shape:
            raise StateFileError("the rows have no configurations, no automaton, or not a stack for each configuration")
        if not bool(((self.most >= 1) & (self.most <= self.states.shape[1])).all()):
            raise StateFileError("a row may keep fewer configurations than 1, or more than there is room for")
        for row, (layers, states, stacks) in enumerate(
            zip(self.slots.tolist(), self.states.tolist(), self.stacks.tolist(), strict=True)
        ):
            automaton = handles[layers[0] - 1].automaton if layers[0] else None
            if automaton and [handle.slot for handle in handles_of_layers(processor, automaton)] != [
                int(slots[at]) for at in layers if at
            ]:
                raise StateFileError(f"row {row} does not have the layers of its automaton")
            for state, stack in zip(states, stacks, strict=True):
                frames = [frame for frame in stack if frame]
                possible = (
                    automaton.has_state(state)
                    and all(automaton.first_frame <= frame < automaton.states for frame in frames)
                    and len(stack) >= automaton.nesting.max_depth >= len(frames)
                    if automaton
                    else 0 <= state <= FIRST_STATE and not frames
                )
                if not possible or stack[: len(frames)] != frames:
                    raise StateFileError(f"row {row} has a state and a stack that its automaton does not have")
        return self._replace(slots=slots[self.slots], generations=generations[self.slots])


class Branching:
    """The step of rows that may branch, for batches with rows that do not take it."""

    @classmethod
    def neutral_state(cls, context: Context) -> BranchingState:
        """Return the state of rows without a constraint."""
        return BranchingState.neutral(context)


def handles_of_layers(processor: Any, automaton: Any) -> list[Any]:
    """Return the handles of an automaton and of its layers."""
    return [processor.registry.register(layer) for layer in (automaton, *automaton.layers)]
