"""The state of rows under constraints."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.errors import StateFileError
from logitkit.protocol.state import Fill
from logitkit.runtime.automaton_registry import NEUTRAL
from logitkit.runtime.automaton_state import AutomatonState

__all__ = ["ConstraintState"]


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
    def row_states(self) -> Tensor:
        """[B] int64: 0 where a row is dead, 1 where it is finished, else more."""
        return self.at.state

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
