"""The state of rows under constraints, with its two operations on the host for rows with stacks: advance and mask."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.tokens.counted_state import COUNT, STATE
from logitkit.compiler.tokens.packed_stacks import Packed, rows_of, stacks_of
from logitkit.compiler.tokens.place import NO_LIMIT
from logitkit.errors import StateFileError
from logitkit.protocol.state import Fill
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.bank import NEUTRAL, Bank
from logitkit.runtime.row_mask import as_array
from logitkit.runtime.width import check_width

__all__ = ["ConstraintState", "advance_stack_rows", "mask_stack_rows"]


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
        bank = processor.bank
        for row, (slot, generation, _, stack, left) in enumerate(_rows(self)):
            if left < NO_LIMIT:
                raise StateFileError(f"row {row} has {left} tokens left")
            if slot == NEUTRAL:
                if any(stack):
                    raise StateFileError(f"row {row} has open brackets, but no automaton")
                continue
            automaton = bank.automaton(slot, generation)
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


def advance_stack_rows(bank: Bank, state: ConstraintState, tokens: Tensor) -> ConstraintState:
    """Return the state after tokens, [B] or [B, T] int64 with -1 for none, row by row on the host.

    Raises:
        StaleAutomaton: A slot's automaton no longer exists.
    """
    slots, generations, now = state.at.slot.tolist(), state.at.generation.tolist(), state.at.state.tolist()
    left = state.left.tolist()
    runs = tokens.tolist() if tokens.dim() == 2 else [[t] for t in tokens.tolist()]
    # Read only for a token that affects the stack, and written only after a change.
    stacks: list[Packed] | None = None
    counted = False
    for row, (slot, generation, run) in enumerate(zip(slots, generations, runs, strict=True)):
        if slot == NEUTRAL:
            continue
        automaton, current = bank.automaton(slot, generation), now[row]
        for token in run:
            if current < FIRST_STATE:
                break
            if token == -1:
                continue
            before = current
            current = automaton.next(before & STATE, token)
            if current == DEAD or current >= automaton.first_outcome:
                stacks = rows_of(state.stack) if stacks is None else stacks
                current, stacks[row] = automaton.behind(current, stacks[row], before >> COUNT)
            if left[row] > 0:
                left[row] -= 1
                counted = True
        now[row] = current
    return ConstraintState(
        state.at._replace(state=torch.from_numpy(np.array(now, np.int64))),
        state.stack if stacks is None else stacks_of(stacks, state.stack.shape[1]),
        torch.from_numpy(np.array(left, np.int64)) if counted else state.left,
    )


def mask_stack_rows(bank: Bank, state: ConstraintState, logits: Tensor) -> Tensor:
    """Mask row by row on the host, with cached masks for visited states and stacks.

    Raises:
        StaleAutomaton: A slot's automaton no longer exists.
        VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
    """
    array, never, zero = as_array(logits)
    width = array.shape[1]
    columns = (*(part.tolist() for part in state.at), rows_of(state.stack), state.left.tolist())
    for row, (slot, generation, current, stack, left) in enumerate(zip(*columns, strict=True)):
        if slot == NEUTRAL:
            continue
        found = bank.mask(slot, generation, bank.automaton(slot, generation).place(current, stack, left))
        if width != found.size:
            check_width(found.size, width)
        found.apply(array[row], never, zero)
    return logits
