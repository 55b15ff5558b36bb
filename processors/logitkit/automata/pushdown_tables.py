"""The two operations on rows with a stack, by tensors alone: no loop over rows, no host read.

A token pops so many frames at most, of those of all automata in the bank: in so many rounds the row of a popped frame says what
the rest of the token does.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.automata.bank_tables import BankTables, keep_allowed
from logitkit.automata.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.automata.place import ILLEGAL, NO_LIMIT
from logitkit.automata.token_automaton import STAY

__all__ = ["PushdownTables", "advance_stacks", "mask_stacks"]


class PushdownTables(NamedTuple):
    """What a bank's tables have besides those of finite automata.

    Args:
        base: The tables of states and frames.
        cost: int32, for each row of `base.row_start` the tokens that are needed from there.
        states: [N] int64, number of states of each slot: a target from there on is an outcome.
        first_outcome: [N] int64, where the outcomes of each slot begin.
        max_depth: [N] int64, most frames of a row.
        state: int32, the state that each outcome leads to.
        pushed: [.., P] int32, the frames that it pushes, then 0.
        rest: int32, the class of what goes on behind the frame that it pops, or 0.
        height: int32, how many more frames there must be room for.
        outcome_cost: int32, the tokens that are needed behind an outcome that pushes.
        round: [K] for the most frames that a token pops; only its length counts.
    """

    base: BankTables
    cost: Tensor
    states: Tensor
    first_outcome: Tensor
    max_depth: Tensor
    state: Tensor
    pushed: Tensor
    rest: Tensor
    height: Tensor
    outcome_cost: Tensor
    round: Tensor

    def nbytes(self) -> int:
        """Return the bytes of all tensors."""
        return self.base.nbytes() + sum(t.nbytes for t in self[1:] if isinstance(t, Tensor))

    def target(self, slot: Tensor, state: Tensor, symbol: Tensor) -> Tensor:
        """Return what the row of each state says of a class: [B] int64."""
        classes, targets, real = self.base.rows(slot, state)
        hit = real & (classes == symbol[:, None])
        default = self.base.default[slot, symbol].to(torch.int64)
        return torch.where(hit.any(1), (targets * hit).sum(1), default)


class Rows(NamedTuple):
    """Where rows are: state [B], frames [B, D] (0 behind the innermost one) and the tokens that are left to them [B]."""

    state: Tensor
    stack: Tensor
    left: Tensor


def advance_stacks(tables: PushdownTables, slot: Tensor, generation: Tensor, rows: Rows, token: Tensor) -> Rows:
    """Return where rows are after one token each; token -1 changes nothing.

    A stale slot, an id out of range and a token that is illegal lead to `DEAD`.
    """
    base = tables.base
    size = base.class_of.shape[1]
    fresh = generation == base.generation.index_select(0, slot)
    state = torch.where(fresh, rows.state, DEAD)
    symbol = base.class_of[slot, token.clamp(0, size - 1)].to(torch.int64)
    target = tables.target(slot, state, symbol)
    target = torch.where(target == STAY, state, target)
    target = torch.where((token < size) & (token >= 0), target, DEAD)
    stack = rows.stack
    states, most = tables.states.index_select(0, slot), tables.max_depth.index_select(0, slot)
    if stack.shape[1]:
        lane = torch.arange(stack.shape[1], device=stack.device)
        depth = (stack > 0).sum(1)
        for rounds in range(tables.round.shape[0], -1, -1):
            outside = target >= states
            which = torch.where(outside, target - states + tables.first_outcome.index_select(0, slot), 0)
            fits = depth + tables.height.index_select(0, which) <= most
            rest = tables.rest.index_select(0, which).to(torch.int64)
            pops = outside & fits & (rest > 0) & (depth > 0)
            if rounds:
                top = stack.gather(1, (depth - 1).clamp(min=0)[:, None])[:, 0].to(torch.int64)
                behind = tables.target(slot, torch.where(pops, top, DEAD), torch.where(pops, rest, 0))
                stack = torch.where(pops[:, None] & (lane == (depth - 1)[:, None]), 0, stack)
                depth = depth - pops.to(torch.int64)
                pushes = outside & fits & (rest == 0)
                going_on = torch.where(pushes, target, torch.where(outside, DEAD, target))
                target = torch.where(pops, behind, going_on)
            else:
                pushes = outside & fits & (rest == 0)
                pushed = tables.pushed.index_select(0, which)
                for i, frame in enumerate(pushed.unbind(1)):
                    here = pushes[:, None] & (lane == (depth + i)[:, None]) & (frame > 0)[:, None]
                    stack = torch.where(here, frame[:, None], stack)
                after = tables.state.index_select(0, which).to(torch.int64)
                target = torch.where(outside, torch.where(pushes, after, DEAD), target)
    moves = (state >= FIRST_STATE) & (token != -1)
    target = torch.where(moves, target, state)
    stack = torch.where(moves[:, None], stack, rows.stack)
    stack = torch.where((target == DEAD)[:, None], 0, stack)
    left = torch.where(moves & (rows.left > 0), rows.left - 1, rows.left)
    return Rows(target, stack, left)


def mask_stacks(tables: PushdownTables, slot: Tensor, generation: Tensor, rows: Rows, logits: Tensor) -> Tensor:
    """Return the masked logits, [B, W] with W at least the vocabulary's size."""
    base = tables.base
    fresh = generation == base.generation.index_select(0, slot)
    state = torch.where(fresh, rows.state, DEAD)
    first, states = base.first_row.index_select(0, slot), tables.states.index_select(0, slot)
    most, outcome = tables.max_depth.index_select(0, slot), tables.first_outcome.index_select(0, slot)
    depth = (rows.stack > 0).sum(1)
    framed = torch.where(rows.stack > 0, tables.cost[first[:, None] + rows.stack], 0)
    # The state, and then the frames that a token may pop, the innermost first; and what is needed below each.
    places, below = [state], [framed.sum(1)]
    for popped in range(tables.round.shape[0] if rows.stack.shape[1] else 0):
        at = depth - 1 - popped
        top = rows.stack.gather(1, at.clamp(min=0)[:, None])[:, 0].to(torch.int64)
        cost = framed.gather(1, at.clamp(min=0)[:, None])[:, 0]
        places.append(torch.where(at >= 0, top, DEAD))
        below.append(below[-1] - torch.where(at >= 0, cost, 0))
    needed = below[0] + tables.cost.index_select(0, first + state)
    default = base.default.index_select(0, slot)
    # One more column takes what is not real.
    nothing = torch.nn.functional.pad(torch.full_like(default, ILLEGAL), (0, 1), value=ILLEGAL)
    costs = nothing
    for level in range(len(places) - 1, -1, -1):
        classes, targets, real = base.rows(slot, places[level])
        # What is not real are rows of other automata, whose targets this one's tables may not have.
        targets = torch.where(real, targets, DEAD)
        outside = targets >= states[:, None]
        which = torch.where(outside, targets - states[:, None] + outcome[:, None], 0)
        rest = tables.rest[which].to(torch.int64)
        behind = torch.where(rest > 0, costs.gather(1, rest), tables.outcome_cost[which] + below[level][:, None])
        fits = (depth - level)[:, None] + tables.height[which] <= most[:, None]
        behind = torch.where(fits, behind, ILLEGAL)
        inside = tables.cost[first[:, None] + torch.where(outside, DEAD, targets).clamp(min=0)] + below[level][:, None]
        cost = torch.where(outside, behind, inside)
        cost = torch.where(targets == FINISHED, -1, torch.where(targets == DEAD, ILLEGAL, cost))
        dummy = torch.full_like(classes, nothing.shape[1] - 1)
        unlisted = nothing
        if level == 0:
            leads = torch.where(default == STAY, needed[:, None], tables.cost[first[:, None] + default.clamp(min=0)])
            unlisted = torch.nn.functional.pad(torch.where(default == DEAD, ILLEGAL, leads), (0, 1), value=ILLEGAL)
        listed = torch.where(real, classes, dummy).to(torch.int64)
        costs = unlisted.to(nothing.dtype).scatter(1, listed, cost.to(nothing.dtype))
    limit = torch.where(rows.left == NO_LIMIT, ILLEGAL - 1, torch.maximum(rows.left, needed) - 1)
    return keep_allowed(base, slot, state, costs <= limit[:, None], logits)
