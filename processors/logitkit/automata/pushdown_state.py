"""The state of rows under pushdown automata, and its two operations on either path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.automata.automaton_state import AutomatonState, check_width
from logitkit.automata.bank import NEUTRAL
from logitkit.automata.byte_dfa import DEAD, FIRST_STATE
from logitkit.automata.packed_stacks import Packed, rows_of, stacks_of
from logitkit.automata.place import NO_LIMIT
from logitkit.automata.pushdown_bank import PushdownBank
from logitkit.automata.pushdown_tables import Rows, advance_stacks, mask_stacks
from logitkit.automata.row_mask import as_array
from logitkit.errors import StateFileError
from logitkit.state import Fill
from logitkit.tensor_path import by_tensors

if TYPE_CHECKING:
    from logitkit.constraints.pushdown_constraint import PushdownConstraint

__all__ = ["PushdownState", "advance", "mask"]


class PushdownState(NamedTuple):
    """Where each row is: in which state of which automaton, inside which brackets, and how many tokens it may still have.

    Args:
        at: The automaton and the state.
        stack: [B, D] int32, the frame of each open bracket, the outermost first, then 0.
        left: [B] int64, tokens that are left to the row; -1 where they are not counted.
    """

    at: AutomatonState
    stack: Annotated[Tensor, Fill(0)]
    left: Tensor

    def to_portable(self, processor: PushdownConstraint) -> tuple[PushdownState, list[Any]]:
        """Return the state; what in it means something here only is noted by its part."""
        return self, []

    def from_portable(self, notes: object, processor: PushdownConstraint, device: torch.device) -> PushdownState:
        """Return the state, whose automata are bound already.

        Raises:
            StateFileError: A row has frames that are none of its automaton, or is in a frame.
        """
        bank = processor.bank
        for row, (slot, generation, state, stack, left) in enumerate(_rows(self)):
            if left < NO_LIMIT:
                raise StateFileError(f"row {row} has {left} tokens left")
            if slot == NEUTRAL:
                if any(stack):
                    raise StateFileError(f"row {row} has brackets open, but no automaton")
                continue
            automaton = bank.pushdown(slot, generation)
            frames = [f for f in stack if f]
            first = automaton.first_frame
            if state >= first or not all(first <= f < automaton.states for f in frames):
                raise StateFileError(f"row {row} has a state and a stack that its automaton does not have")
            if stack[: len(frames)] != frames or len(frames) > automaton.nesting.max_depth:
                raise StateFileError(f"row {row} has the stack {stack}, which is none")
        return self


def _rows(state: PushdownState) -> list[tuple[int, int, int, list[int], int]]:
    columns = (*(part.tolist() for part in state.at), state.stack.tolist(), state.left.tolist())
    return list(zip(*columns, strict=True))


def advance(bank: PushdownBank, state: PushdownState, tokens: Tensor) -> PushdownState:
    """Return the state after tokens.

    Args:
        bank: The bank that the slots refer to.
        state: The state of B rows.
        tokens: [B] or [B, T] int64, -1 = none.

    Raises:
        StaleAutomaton: A slot's automaton is gone (on the CPU; on a device its rows die).
    """
    if not by_tensors(state.at.state):
        return advance_rows(bank, state, tokens)
    tables = bank.stacks_on(state.at.state.device)
    rows = Rows(state.at.state, state.stack, state.left)
    for column in tokens.unbind(1) if tokens.dim() == 2 else (tokens,):
        rows = advance_stacks(tables, state.at.slot, state.at.generation, rows, column)
    return PushdownState(state.at._replace(state=rows.state), rows.stack, rows.left)


def advance_rows(bank: PushdownBank, state: PushdownState, tokens: Tensor) -> PushdownState:
    """Advance row by row on the host: for few rows it is faster than any tensor operation."""
    slots, generations, now = state.at.slot.tolist(), state.at.generation.tolist(), state.at.state.tolist()
    left = state.left.tolist()
    runs = tokens.tolist() if tokens.dim() == 2 else [[t] for t in tokens.tolist()]
    # Read where a token does anything to a stack, and written where there is any change.
    stacks: list[Packed] | None = None
    counted = False
    for row, (slot, generation, run) in enumerate(zip(slots, generations, runs, strict=True)):
        if slot == NEUTRAL:
            continue
        automaton, current = bank.pushdown(slot, generation), now[row]
        for token in run:
            if current < FIRST_STATE:
                break
            if token == -1:
                continue
            current = automaton.next(current, token)
            if current == DEAD or current >= automaton.first_outcome:
                stacks = rows_of(state.stack) if stacks is None else stacks
                current, stacks[row] = automaton.behind(current, stacks[row])
            if left[row] > 0:
                left[row] -= 1
                counted = True
        now[row] = current
    return PushdownState(
        AutomatonState(state.at.slot, state.at.generation, torch.from_numpy(np.array(now, np.int64))),
        state.stack if stacks is None else stacks_of(stacks, state.stack.shape[1]),
        torch.from_numpy(np.array(left, np.int64)) if counted else state.left,
    )


def mask(bank: PushdownBank, state: PushdownState, logits: Tensor) -> Tensor:
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
        tables = bank.stacks_on(logits.device)
        check_width(tables.base.class_of.shape[1], logits)
        rows = Rows(state.at.state, state.stack, state.left)
        return mask_stacks(tables, state.at.slot, state.at.generation, rows, logits)
    return mask_rows(bank, state, logits)


def mask_rows(bank: PushdownBank, state: PushdownState, logits: Tensor) -> Tensor:
    """Mask row by row, each in the cheapest way for its place; the masks of visited places are cached."""
    array, never, zero = as_array(logits)
    width = array.shape[1]
    slots, generations, states = state.at.slot.tolist(), state.at.generation.tolist(), state.at.state.tolist()
    stacks, lefts = rows_of(state.stack), state.left.tolist()
    for row, (slot, generation, current) in enumerate(zip(slots, generations, states, strict=True)):
        if slot == NEUTRAL:
            continue
        place = bank.pushdown(slot, generation).place(current, stacks[row], lefts[row])
        found = bank.mask(slot, generation, place)
        if width < found.size:
            check_width(found.size, logits)
        found.apply(array[row], never, zero)
    return logits
