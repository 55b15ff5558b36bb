"""Rows under constraints on the host, as Python numbers: the two operations on their state, advance and mask.

A state consists of tensors. To read one of them as Python numbers, or to make one, takes a microsecond, and a step of one row
reads ten and makes three. So the numbers of the last state are remembered with the tensors that hold them: the step that follows
finds them by the identity of these tensors. Together with them are the masks of the rows. A row that stays where it is, as in
free text, keeps its state and its mask, so that its step is one look-up of the next state.

Only the last state of a registry is remembered, and only that of few rows, whose masks take little memory. Any other state, and
one whose tensors were written to, is read again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.tokens.tables.packed_stacks import Packed, rows_of, stacks_of
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.runtime.automaton_registry import NEUTRAL, AutomatonRegistry
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.constraint_state import ConstraintState
from logitkit.runtime.logit_arrays import as_array, check_row
from logitkit.runtime.row_mask import RowMask
from logitkit.runtime.width import check_width

__all__ = ["HostRows", "advance_on_host", "mask_on_host"]

# In larger batches, reading a state takes a small part of a step. A mask takes up to 0.75 MB at 131k columns.
FEW_ROWS = 32


class HostRows:
    """The numbers of a state, row by row.

    Args:
        state: The state.
        slots, generations, states, stacks, left: Its fields, [B] each.
        masks: The masks of the rows, as far as they are known.
    """

    __slots__ = ("_state", "_writes", "generations", "left", "masks", "slots", "stacks", "states")

    def __init__(
        self,
        state: ConstraintState,
        slots: list[int],
        generations: list[int],
        states: list[int],
        stacks: list[Packed],
        left: list[int],
        masks: list[RowMask | None],
    ) -> None:
        self._state, self._writes = state, _writes(state)
        self.slots, self.generations, self.states = slots, generations, states
        self.stacks, self.left, self.masks = stacks, left, masks

    @classmethod
    def of(cls, registry: AutomatonRegistry, state: ConstraintState) -> HostRows:
        """Return the numbers of a state on the CPU."""
        known: HostRows | None = registry.last_rows
        if known is not None and known.are_of(state):
            return known
        (slot, generation, now), stack, left = state
        slots = slot.tolist()
        found = cls(state, slots, generation.tolist(), now.tolist(), rows_of(stack), left.tolist(), [None] * len(slots))
        found.remember(registry)
        return found

    def remember(self, registry: AutomatonRegistry) -> None:
        """Keep these numbers for the next step, if there are few rows."""
        if len(self.slots) <= FEW_ROWS:
            registry.last_rows = self

    def are_of(self, state: ConstraintState) -> bool:
        """Whether these are the numbers of a state: its tensors are the same, and nothing has been written to them."""
        mine = self._state
        if mine is not state:
            (slot, generation, now), stack, left = mine
            at = state.at
            if (
                now is not at.state
                or slot is not at.slot
                or generation is not at.generation
                or stack is not state.stack
                or left is not state.left
            ):
                return False
        return self._writes >= 0 and self._writes == _writes(state)

    def mask(self, registry: AutomatonRegistry, row: int, columns: int) -> RowMask:
        """Return the mask of a row that has a constraint.

        Raises:
            StaleAutomaton: The automaton of the row no longer exists.
            VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
        """
        slot, generation = self.slots[row], self.generations[row]
        found = self.masks[row]
        if found is None or registry.generations[slot] != generation:
            mask_key = registry.automaton(slot, generation).mask_key(self.states[row], self.stacks[row], self.left[row])
            found = self.masks[row] = registry.mask(slot, generation, mask_key)
        if columns != found.size:
            check_width(found.size, columns)
        return found


def _writes(state: ConstraintState) -> int:
    """Return how often torch operations wrote to the tensors of a state, or -1 if torch does not count that."""
    (slot, generation, now), stack, left = state
    try:
        return slot._version + generation._version + now._version + stack._version + left._version  # noqa: SLF001
    except RuntimeError:  # a tensor that was made in inference mode
        return -1


def advance_on_host(registry: AutomatonRegistry, state: ConstraintState, tokens: Tensor) -> ConstraintState:
    """Return the state after tokens, row by row; it is the given one if no row has changed.

    For a few rows, this is faster than any tensor operation.

    Args:
        registry: The registry that the slots refer to.
        state: The state of B rows, on the CPU.
        tokens: [B] or [B, T] int64, -1 = none.

    Raises:
        StaleAutomaton: A slot's automaton no longer exists.
    """
    rows = HostRows.of(registry, state)
    states, stacks, left, masks = [*rows.states], [*rows.stacks], [*rows.left], [*rows.masks]
    runs = tokens.tolist() if tokens.dim() == 2 else [[t] for t in tokens.tolist()]
    for row, run in enumerate(runs):
        slot = rows.slots[row]
        if slot == NEUTRAL:
            continue
        before = states[row], stacks[row], left[row]
        after = _after(registry.automaton(slot, rows.generations[row]), registry.stacks, *before, run)
        if after != before:
            states[row], stacks[row], left[row] = after
            masks[row] = None
    (slot_ids, generation_ids, now), stack_ids, left_ids = state
    # A comparison takes less time than a new tensor.
    if states != rows.states:
        now = torch.from_numpy(np.array(states, np.int64))  # three times as fast as torch.tensor
    if stacks != rows.stacks:
        stack_ids = stacks_of(stacks, stack_ids.shape[1])
    if left != rows.left:
        left_ids = torch.from_numpy(np.array(left, np.int64))
    if now is state.at.state and stack_ids is state.stack and left_ids is state.left:
        return state
    after_all = ConstraintState(AutomatonState(slot_ids, generation_ids, now), stack_ids, left_ids)
    HostRows(after_all, rows.slots, rows.generations, states, stacks, left, masks).remember(registry)
    return after_all


def _after(
    automaton: TokenAutomaton, has_stacks: bool, state: int, stack: Packed, left: int, tokens: Sequence[int]
) -> tuple[int, Packed, int]:
    """Return the state, the stack and the number of tokens left of one row after tokens."""
    for token in tokens:
        if state < FIRST_STATE:
            break
        if token == -1:
            continue
        if has_stacks:
            state, stack = automaton.step(state, stack, token)
        else:
            state = automaton.next(state, token)
        if left > 0:
            left -= 1
    return state, stack, left


def mask_on_host(
    registry: AutomatonRegistry, state: ConstraintState, logits: Tensor, *, of_model: bool = False
) -> Tensor:
    """Mask row by row in place, each in the cheapest way for its state, with cached masks for visited states.

    Args:
        registry: The registry that the slots refer to.
        state: The state of B rows, on the CPU.
        logits: [B, W] floating point, W at least the size of the vocabulary; columns beyond it are masked.
        of_model: Whether broken logits are an error; otherwise, NaN counts as -inf.

    Raises:
        BrokenLogits: The logits of a row are those of a model, and broken.
        StaleAutomaton: A slot's automaton no longer exists.
        VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
    """
    rows = HostRows.of(registry, state)
    array, never, zero = as_array(logits)
    columns = array.shape[1]
    for row, slot in enumerate(rows.slots):
        if slot != NEUTRAL:
            rows.mask(registry, row, columns).apply(array[row], never, zero, row if of_model else None)
        elif of_model:
            check_row(array[row], never, row)
    return logits
