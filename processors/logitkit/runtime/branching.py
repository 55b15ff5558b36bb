"""Rows that may branch, with tensors only: each configuration is a row of `stack_tables`, in each layer of its automaton.

`BranchingRow` says what they are, and does the same on the host. All shapes depend on the room for configurations, never on how
many a row has: it has N, of which some are dead.
"""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.runtime.automaton_registry import NEUTRAL
from logitkit.runtime.positions import RowPositions
from logitkit.runtime.stack_tables import StackRows, StackTables, advance_stacks, legal_stacks

__all__ = ["advance_branching", "legal_branching"]

# More than any number of frames.
LAST = 2**30


def advance_branching(tables: StackTables, at: RowPositions, token: Tensor) -> RowPositions:
    """Return the positions after one token per row, [B]; -1 changes nothing."""
    assert at.most is not None
    assert at.narrowed is not None
    rows, count = at.state.shape
    of_each = token[:, None].expand(rows, count).reshape(-1)
    made = []
    for number in range(at.slot.shape[1]):
        slot, generation, before = _layer(at, number)
        after = advance_stacks(tables, slot, generation, before, of_each)
        made.append((after.state if number == 0 else torch.where(slot == NEUTRAL, DEAD, after.state), after.stack))
    states = torch.cat([found.view(rows, count) for found, _ in made], 1)
    stacks = torch.cat([found.view(at.stack.shape) for _, found in made], 1)
    stacks = torch.where((states == DEAD)[:, :, None], 0, stacks)
    left = (states != DEAD) & ~_repeated(states, stacks)
    depth = torch.where(left, (stacks > 0).sum(2), LAST)
    order = depth.argsort(dim=1, stable=True)[:, :count]
    lane = torch.arange(count, device=states.device)
    kept = left.gather(1, order) & (lane < at.most[:, None])
    stacks = stacks.gather(1, order[:, :, None].expand(rows, count, stacks.shape[2]))
    return at._replace(
        state=torch.where(kept, states.gather(1, order), DEAD),
        stack=torch.where(kept[:, :, None], stacks, 0),
        narrowed=at.narrowed | (left.sum(1) > at.most),
    )


def legal_branching(tables: StackTables, at: RowPositions) -> tuple[Tensor, Tensor]:
    """Return a state of each row, and which classes are legal, [B, C + 1] bool, as `legal_stacks` does."""
    rows, count = at.state.shape
    legal: Tensor | None = None
    now = at.state
    for number in range(at.slot.shape[1]):
        slot, generation, configurations = _layer(at, number)
        live, found = legal_stacks(tables, slot, generation, configurations)
        found = found & (live >= FIRST_STATE)[:, None]
        if number:
            found = found & (slot != NEUTRAL)[:, None]
        else:
            now = live.view(rows, count)
        of_row = found.view(rows, count, found.shape[1]).any(1)
        legal = of_row if legal is None else legal | of_row
    assert legal is not None
    return now.amax(1), legal


def _layer(at: RowPositions, number: int) -> tuple[Tensor, Tensor, StackRows]:
    """Return the slots and generations of a layer for each configuration, and the configurations as rows."""
    rows, count = at.state.shape
    slot, generation = (part[:, number, None].expand(rows, count).reshape(-1) for part in (at.slot, at.generation))
    states, stacks = at.state.reshape(-1), at.stack.flatten(0, 1)
    return slot, generation, StackRows(states, stacks, torch.full_like(states, NO_LIMIT))


def _repeated(states: Tensor, stacks: Tensor) -> Tensor:
    """Return [B, M] bool, which configurations equal an earlier one of their row."""
    # Weights made on the device: numbers from the host would be copied to it at each step.
    weights = torch.arange(1, stacks.shape[2] + 1, device=states.device) * 7046029254386353131
    for _ in range(2):
        weights = (weights ^ (weights >> 29)) * -4658895280553007687
    hashed = states + (stacks * (weights | 1)).sum(2)
    # Equal ones have equal hashes, so that they come next to each other.
    order = hashed.argsort(dim=1, stable=True)
    states = states.gather(1, order)
    stacks = stacks.gather(1, order[:, :, None].expand_as(stacks))
    same = (states[:, 1:] == states[:, :-1]) & (stacks[:, 1:] == stacks[:, :-1]).all(2)
    return torch.nn.functional.pad(same, (1, 0)).gather(1, order.argsort(dim=1))
