"""The state of rows under constraints."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.compiler.tokens.tables.packed_stacks import rows_of, stacks_of
from logitkit.errors import StateFileError
from logitkit.protocol.state import Fill
from logitkit.runtime.automaton_registry import NEUTRAL
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.constraint_row import ConstraintRow, NeutralRow, StackRow
from logitkit.runtime.positions import Numbers, RowPositions

__all__ = ["ConstraintState"]

CURRENT, STACK, LEFT = attrgetter("current"), attrgetter("stack"), attrgetter("left")


class ConstraintState(NamedTuple):
    """The position of each row: its automaton and state, its open brackets, and the number of tokens that it has left.

    Args:
        at: The automaton and the state.
        stack: [B, D] int32, the frame of each open bracket, outermost first, then 0. If D is 0, the states of all rows say
            everything, and nothing else is read or written.
        left: [B] int64, the number of tokens left to the row; -1 if they are not counted.
    """

    at: AutomatonState
    stack: Annotated[Tensor, Fill(0)]
    left: Tensor

    @property
    def runs_on_host(self) -> bool:
        """Whether steps run on the host, wherever the tensors are."""
        return False

    @property
    def row_states(self) -> Tensor:
        """[B] int64: 0 where a row is dead, 1 where it is finished, else more."""
        return self.at.state

    @property
    def has_frames(self) -> bool:
        """Whether rows have room for frames."""
        return self.stack.shape[1] > 0

    @property
    def slots(self) -> Tensor:
        """[B] int64, the slots of the rows."""
        return self.at.slot

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors."""
        (slot, generation, state), stack, left = self
        return slot, generation, state, stack, left

    def host_rows(self, registry: Any) -> list[ConstraintRow]:
        """Return the rows as Python numbers."""
        slots, generations, states = (part.tolist() for part in self.at)
        if not self.has_frames:
            return [
                NeutralRow(registry, slot, generation, [(state, b"")])
                if slot == NEUTRAL
                else ConstraintRow(registry, slot, generation, state)
                for slot, generation, state in zip(slots, generations, states, strict=True)
            ]
        columns = zip(slots, generations, states, rows_of(self.stack), self.left.tolist(), strict=True)
        return [
            NeutralRow(registry, slot, generation, [(state, stack)], left=left)
            if slot == NEUTRAL
            else StackRow(registry, slot, generation, state, stack, left)
            for slot, generation, state, stack, left in columns
        ]

    def numbers_of(self, rows: Sequence[Any]) -> Numbers:
        """Return the states of rows, and, if there is room for frames, their stacks and the tokens left to them."""
        states = [*map(CURRENT, rows)]
        return (states, [*map(STACK, rows)], [*map(LEFT, rows)]) if self.stack.shape[1] else (states,)

    def with_numbers(self, numbers: Numbers, before: Numbers | None = None) -> ConstraintState:
        """Return the rows at other positions; see `RowState`."""
        (slot, generation, state), stack, left = self
        # A comparison takes less time than a new tensor, and `from_numpy` a third of that of `tensor`.
        if before is None or numbers[0] != before[0]:
            state = torch.from_numpy(np.array(numbers[0], np.int64))
        if len(numbers) > 1:
            if before is None or numbers[1] != before[1]:
                stack = stacks_of(numbers[1], stack.shape[1])
            if before is None or numbers[2] != before[2]:
                left = torch.from_numpy(np.array(numbers[2], np.int64))
        return ConstraintState(AutomatonState(slot, generation, state), stack, left)

    @property
    def positions(self) -> RowPositions:
        """The positions of the rows as tensors."""
        return RowPositions(*self.at, self.stack, self.left)

    def at_positions(self, positions: RowPositions) -> ConstraintState:
        """Return the state of the rows at other positions."""
        assert positions.left is not None
        return ConstraintState(self.at.at_positions(positions), positions.stack, positions.left)

    def finished(self, rows: Tensor) -> ConstraintState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        return self._replace(at=self.at.finished(rows))

    def to_portable(self, processor: Any) -> tuple[ConstraintState, list[Any]]:
        """Return the state; `at` replaces its own references to this process."""
        return self, []

    def from_portable(self, notes: object, processor: Any, device: torch.device) -> ConstraintState:
        """Return the state, whose automata are already bound.

        Raises:
            StateFileError: The state or stack of a row is impossible for its automaton.
        """
        registry = processor.registry
        for row, (slot, generation, _, stack, left) in enumerate(_rows(self)):
            if left < NO_LIMIT:
                raise StateFileError(f"row {row} has {left} tokens left")
            if slot == NEUTRAL:
                if any(stack):
                    raise StateFileError(f"row {row} has open brackets, but no automaton")
                continue
            automaton = registry.automaton(slot, generation)
            if left != NO_LIMIT and automaton.nesting.cost is None:
                raise StateFileError(f"row {row} has {left} tokens left, but its automaton counts none")
            frames = [f for f in stack if f]
            first = automaton.first_frame
            if not all(first <= f < automaton.states for f in frames):
                raise StateFileError(f"row {row} has a state and a stack that its automaton does not have")
            if len(stack) < automaton.nesting.max_depth:
                raise StateFileError(
                    f"row {row} has room for {len(stack)} open brackets; its automaton needs {automaton.nesting.max_depth}"
                )
            if stack[: len(frames)] != frames or len(frames) > automaton.nesting.max_depth:
                raise StateFileError(f"row {row} has the stack {stack}, which is impossible")
        return self


def _rows(state: ConstraintState) -> list[tuple[int, int, int, list[int], int]]:
    columns = (*(part.tolist() for part in state.at), state.stack.tolist(), state.left.tolist())
    return list(zip(*columns, strict=True))
