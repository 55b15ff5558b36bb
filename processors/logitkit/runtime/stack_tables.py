"""The two operations on rows with a stack, advance and mask, using tensors only: no loop over rows, no host read.

A token pops a limited number of frames; the maximum over all automata in the bank gives the number of rounds. In each round,
the table row of the popped frame defines the effect of the rest of the token.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.compiler.tokens.counted_state import COUNT, STATE
from logitkit.compiler.tokens.place import ILLEGAL, NO_LIMIT
from logitkit.compiler.tokens.token_table import STAY
from logitkit.runtime.bank_tables import BankTables, keep_allowed

__all__ = ["StackTables", "advance_stacks", "legal_stacks", "mask_stacks"]


class StackTables(NamedTuple):
    """The tables of a bank: those of states and frames, and what tokens do to stacks.

    Args:
        base: The tables of states and frames.
        cost: int32, for each row of `base.row_start`, the number of tokens needed to finish from there.
        states: [N] int64, the number of states of each slot; a target from this number on is an outcome.
        first_outcome: [N] int64, the index of each slot's first outcome.
        max_depth: [N] int64, the maximum number of frames of a row, those of blocks not counted.
        first_block: [N] int64, the state with which each slot's frames of blocks begin; [0] if no automaton has any.
        state: int32, the state that each outcome leads to.
        pushed: [.., P] int32, the frames that each outcome pushes, then 0.
        rest: int32, the class of the rest of the token, after the frame that the outcome pops; 0 if it pops none.
        height: int32, the free frames that the outcome needs.
        outcome_cost: int32, the number of tokens needed to finish after an outcome that pushes.
        counting: [4, ..] int32, what each outcome does to the count of a state (`Counting`); [4, 0] if no automaton counts.
        round: [K] for the maximum number of frames that a token pops; only its length matters.
    """

    base: BankTables
    cost: Tensor
    states: Tensor
    first_outcome: Tensor
    max_depth: Tensor
    first_block: Tensor
    state: Tensor
    pushed: Tensor
    rest: Tensor
    height: Tensor
    outcome_cost: Tensor
    counting: Tensor
    round: Tensor

    def counted(self, which: Tensor, count: Tensor) -> Tensor:
        """Return whether outcomes, [B] or [B, K], are legal with the counts of their rows, [B]."""
        low, high = self.counting[0][which], self.counting[1][which]
        count = count.reshape(-1, *[1] * (which.dim() - 1))
        return (low <= count) & (count <= high)

    def open_blocks(self, slot: Tensor, frames: Tensor) -> Tensor | int:
        """Return how many of the frames of each row, [B, D], are those of blocks: [B]."""
        if not self.first_block.shape[0]:
            return 0
        return (frames >= self.first_block.index_select(0, slot)[:, None]).sum(1)

    def nested(self, slot: Tensor, stack: Tensor, depth: Tensor) -> Tensor:
        """Return how many of the frames of each row count as nesting, [B], given how many there are."""
        return depth - self.open_blocks(slot, stack) if self.first_block.shape[0] else depth


class StackRows(NamedTuple):
    """The positions of rows: state [B], frames [B, D] (0 after the innermost one) and tokens left [B]."""

    state: Tensor
    stack: Tensor
    left: Tensor


def advance_stacks(tables: StackTables, slot: Tensor, generation: Tensor, rows: StackRows, token: Tensor) -> StackRows:
    """Return the positions after one token per row; token -1 changes nothing.

    A stale slot, an id out of range or an illegal token leads to `DEAD`.
    """
    base = tables.base
    state = base.live(slot, generation, rows.state)
    target, stack = base.targets(slot, state & STATE, token), rows.stack
    states, most = tables.states.index_select(0, slot), tables.max_depth.index_select(0, slot)
    counts = tables.counting.shape[1] > 0
    count = state >> COUNT
    if counts:
        outside = target >= states
        which = torch.where(outside, target - states + tables.first_outcome.index_select(0, slot), 0)
        target = torch.where(outside & ~tables.counted(which, count), DEAD, target)
    if stack.shape[1]:
        lane = torch.arange(stack.shape[1], device=stack.device)
        depth = (stack > 0).sum(1)
        for rounds in range(tables.round.shape[0], -1, -1):
            outside = target >= states
            which = torch.where(outside, target - states + tables.first_outcome.index_select(0, slot), 0)
            fits = tables.nested(slot, stack, depth) + tables.height.index_select(0, which) <= most
            rest = tables.rest.index_select(0, which).to(torch.int64)
            pops, pushes = outside & fits & (rest > 0) & (depth > 0), outside & fits & (rest == 0)
            if rounds:
                top = stack.gather(1, (depth - 1).clamp(min=0)[:, None])[:, 0].to(torch.int64)
                symbol = torch.where(pops, rest, 0)
                default = base.default[slot, symbol].to(torch.int64)
                rest_target = base.listed(slot, torch.where(pops, top, DEAD), symbol, default)
                stack = torch.where(pops[:, None] & (lane == (depth - 1)[:, None]), 0, stack)
                depth = depth - pops.to(torch.int64)
                if counts:
                    count = torch.where(pops, 0, count)
                going_on = torch.where(pushes, target, torch.where(outside, DEAD, target))
                target = torch.where(pops, rest_target, going_on)
            else:
                pushed = tables.pushed.index_select(0, which)
                for i, frame in enumerate(pushed.unbind(1)):
                    here = pushes[:, None] & (lane == (depth + i)[:, None]) & (frame > 0)[:, None]
                    stack = torch.where(here, frame[:, None], stack)
                after = tables.state.index_select(0, which).to(torch.int64)
                target = torch.where(outside, torch.where(pushes, after, DEAD), target)
                if counts:
                    kept, added = tables.counting[2:, which].to(torch.int64)
                    target = torch.where(pushes, target | (kept * count + added) << COUNT, target)
    moves = (state >= FIRST_STATE) & (token != -1)
    target = torch.where(moves, target, state)
    stack = torch.where(moves[:, None], stack, rows.stack)
    stack = torch.where((target == DEAD)[:, None], 0, stack)
    left = torch.where(moves & (rows.left > 0), rows.left - 1, rows.left)
    return StackRows(target, stack, left)


def mask_stacks(tables: StackTables, slot: Tensor, generation: Tensor, rows: StackRows, logits: Tensor) -> Tensor:
    """Return the masked logits, [B, W] with W at least the vocabulary's size."""
    state = tables.base.live(slot, generation, rows.state) & STATE
    return keep_allowed(tables.base, slot, state, legal_stacks(tables, slot, generation, rows), logits)


def legal_stacks(tables: StackTables, slot: Tensor, generation: Tensor, rows: StackRows) -> Tensor:
    """Return which classes are legal in each row, [B, C + 1] bool; what is said of the last one means nothing."""
    base = tables.base
    state = base.live(slot, generation, rows.state)
    count, state = state >> COUNT, state & STATE
    first, states = base.first_row.index_select(0, slot), tables.states.index_select(0, slot)
    most, outcome = tables.max_depth.index_select(0, slot), tables.first_outcome.index_select(0, slot)
    # A row whose automaton no longer exists has frames of that one, not of the one in its slot.
    stack = torch.where((state == DEAD)[:, None], 0, rows.stack)
    depth = (stack > 0).sum(1)
    # How many frames count as nesting, before the first is popped, then after each.
    counted = [tables.nested(slot, stack, depth)]
    framed = torch.where(stack > 0, tables.cost[first[:, None] + stack], 0)
    # The state, then the frames that a token may pop, innermost first; and the tokens needed for the frames below each.
    places, below = [state], [framed.sum(1)]
    for popped in range(tables.round.shape[0] if stack.shape[1] else 0):
        at = depth - 1 - popped
        top = stack.gather(1, at.clamp(min=0)[:, None])[:, 0].to(torch.int64)
        cost = framed.gather(1, at.clamp(min=0)[:, None])[:, 0]
        places.append(torch.where(at >= 0, top, DEAD))
        counted.append(counted[-1] - (1 - tables.open_blocks(slot, top[:, None])))
        below.append(below[-1] - torch.where(at >= 0, cost, 0))
    needed = below[0] + tables.cost.index_select(0, first + state)
    default = base.default.index_select(0, slot)
    leads = torch.where(default == STAY, needed[:, None], tables.cost[first[:, None] + default.clamp(min=0)])
    # An extra column absorbs the padding.
    unlisted = torch.nn.functional.pad(torch.where(default == DEAD, ILLEGAL, leads), (0, 1), value=ILLEGAL).to(
        default.dtype
    )
    costs = nothing = torch.full_like(unlisted, ILLEGAL)
    for level in range(len(places) - 1, -1, -1):
        behind, costs = costs, nothing if level else unlisted
        classes, targets, real = base.rows(slot, places[level])
        # Padding contains rows of other automata, whose targets may be out of range in this one's tables.
        targets = torch.where(real, targets, DEAD)
        outside = targets >= states[:, None]
        which = torch.where(outside, targets - states[:, None] + outcome[:, None], 0)
        rest = tables.rest[which].to(torch.int64)
        pushes = tables.outcome_cost[which] + below[level][:, None]
        outside_cost = torch.where(rest > 0, behind.gather(1, rest), pushes)
        fits = counted[level][:, None] + tables.height[which] <= most[:, None]
        if level == 0 and tables.counting.shape[1]:
            fits = fits & tables.counted(which, count)
        outside_cost = torch.where(fits, outside_cost, ILLEGAL)
        stays = torch.where(outside, DEAD, targets).clamp(min=0)
        cost = torch.where(outside, outside_cost, tables.cost[first[:, None] + stays] + below[level][:, None])
        cost = torch.where(targets == FINISHED, -1, torch.where(targets == DEAD, ILLEGAL, cost))
        dummy = torch.full_like(classes, nothing.shape[1] - 1)
        listed = torch.where(real, classes, dummy).to(torch.int64)
        costs = costs.scatter(1, listed, cost.to(costs.dtype))
    # With more tokens left than anything costs, everything legal fits.
    limit = torch.where(rows.left == NO_LIMIT, ILLEGAL, torch.maximum(rows.left, needed).clamp(max=ILLEGAL)) - 1
    return costs <= limit[:, None]
