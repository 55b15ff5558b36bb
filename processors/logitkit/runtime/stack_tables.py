"""The two operations on rows with a stack, advance and mask, using tensors only: no loop over rows, no host read.

A token pops a limited number of frames; the maximum over all automata in the registry gives the number of rounds. In each round,
the table row of the popped frame defines the effect of the rest of the token.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.compiler.tokens.tables.counted_state import StateAndCount
from logitkit.compiler.tokens.tables.mask_key import ILLEGAL, NO_LIMIT
from logitkit.compiler.tokens.tables.targets import REGISTRY_TARGETS
from logitkit.compiler.tokens.tables.token_table import STAY
from logitkit.runtime.registry_tables import RegistryTables

__all__ = ["StackTables", "advance_stacks", "legal_stacks"]


class StackTables(NamedTuple):
    """The columns of `Records`: those of states and frames, and what tokens do to stacks.

    Args:
        base: The columns of states and frames.
        cost: [R] int32, the number of tokens needed to finish from each row.
        max_depth: [N] int64, the maximum number of frames of a row, those of blocks not counted.
        first_block: [N] int64, the state with which each slot's frames of blocks begin; [0] if no automaton has any.
        state: [O] int32, the state that each action leads to.
        pushed: [O, F] int32, the frames that each action pushes, then 0.
        rest: [O] int32, the class of the rest of the token, after the frame that the action pops; 0 if it pops none.
        height: [O] int32, the free frames that the action needs.
        action_cost: [O] int32, the number of tokens needed to finish after an action that pushes.
        counting: [4, O] int32, what each action does to the count of a state (`Counting`); [4, 0] if no automaton counts.
        round: [K] for the maximum number of frames that a token pops; only its length matters.
    """

    base: RegistryTables
    cost: Tensor
    max_depth: Tensor
    first_block: Tensor
    state: Tensor
    pushed: Tensor
    rest: Tensor
    height: Tensor
    action_cost: Tensor
    counting: Tensor
    round: Tensor

    def actions(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return which targets are actions, and their numbers; 0 for the others."""
        outside = REGISTRY_TARGETS.is_action(targets)
        return outside, torch.where(outside, REGISTRY_TARGETS.action_number(targets), 0)

    def counted(self, which: Tensor, count: Tensor) -> Tensor:
        """Return whether actions, [B] or [B, K], are legal with the counts of their rows, [B]."""
        low, high = self.counting[0][which], self.counting[1][which]
        count = count.reshape(-1, *[1] * (which.dim() - 1))
        return (low <= count) & (count <= high)

    def of_blocks(self, slot: Tensor, frames: Tensor) -> Tensor:
        """Return which of the frames of each row, [B, D], are those of blocks: 1, else 0."""
        if not self.first_block.shape[0]:
            return torch.zeros_like(frames)
        return (frames >= self.first_block.index_select(0, slot)[:, None]).to(frames.dtype)

    def nested(self, slot: Tensor, stack: Tensor, depth: Tensor) -> Tensor:
        """Return how many of the frames of each row count as nesting, [B], given how many there are."""
        return depth - self.of_blocks(slot, stack).sum(1) if self.first_block.shape[0] else depth


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
    target, stack = base.targets(slot, StateAndCount.state(state), token), rows.stack
    first, most = base.first_row.index_select(0, slot), tables.max_depth.index_select(0, slot)
    counts, count = tables.counting.shape[1] > 0, StateAndCount.count(state)
    if counts:
        outside, which = tables.actions(target)
        target = torch.where(outside & ~tables.counted(which, count), DEAD, target)
    if stack.shape[1]:
        depth = (stack > 0).sum(1)
        nested = tables.nested(slot, stack, depth)
        for _ in range(tables.round.shape[0]):
            outside, which = tables.actions(target)
            rest = tables.rest.index_select(0, which).to(torch.int64)
            pops = outside & (nested + tables.height.index_select(0, which) <= most) & (rest > 0) & (depth > 0)
            top = torch.where(pops, stack.gather(1, (depth - 1).clamp(min=0)[:, None])[:, 0], DEAD).to(torch.int64)
            # A rest that a frame does not list is illegal: that is the default of rests.
            found = base.listed(first + top, torch.where(pops, rest, 0), torch.full_like(top, DEAD))
            target = torch.where(pops, found, target)
            # The frames that are popped are left out of the stack at the end.
            depth = depth - pops.to(torch.int64)
            nested = nested - (pops.to(torch.int64) - tables.of_blocks(slot, top[:, None])[:, 0])
            if counts:
                count = torch.where(pops, 0, count)
        outside, which = tables.actions(target)
        fits = nested + tables.height.index_select(0, which) <= most
        pushes = outside & fits & (tables.rest.index_select(0, which) == 0)
        lane = torch.arange(stack.shape[1], device=stack.device)
        stack = torch.where(lane < depth[:, None], stack, 0)
        for i, frame in enumerate(tables.pushed.index_select(0, which).unbind(1)):
            here = pushes[:, None] & (lane == (depth + i)[:, None]) & (frame > 0)[:, None]
            stack = torch.where(here, frame[:, None], stack)
        after = tables.state.index_select(0, which).to(torch.int64)
        target = torch.where(outside, torch.where(pushes, after, DEAD), target)
        if counts:
            kept, added = tables.counting[2:, which].to(torch.int64)
            target = torch.where(pushes, StateAndCount.of(target, kept * count + added), target)
    moves = (state >= FIRST_STATE) & (token != -1)
    target = torch.where(moves, target, state)
    stack = torch.where(moves[:, None], stack, rows.stack)
    stack = torch.where((target == DEAD)[:, None], 0, stack)
    left = torch.where(moves & (rows.left > 0), rows.left - 1, rows.left)
    return StackRows(target, stack, left)


def _left_over(whole: Tensor, parts: Tensor) -> Tensor:
    """Return what is left of a number of each row, [B], before and after each of the parts, [B, L], is taken: [B, L + 1]."""
    return torch.cat([whole[:, None], whole[:, None] - parts.cumsum(1)], 1)


def legal_stacks(tables: StackTables, slot: Tensor, generation: Tensor, rows: StackRows) -> tuple[Tensor, Tensor]:
    """Return the states without counts, and which classes are legal, [B, C + 1] bool; the last column means nothing."""
    base = tables.base
    state = base.live(slot, generation, rows.state)
    count, state = StateAndCount.count(state), StateAndCount.state(state)
    first, most = base.first_row.index_select(0, slot), tables.max_depth.index_select(0, slot)
    # A row whose automaton no longer exists has frames of that one, not of the one in its slot.
    stack = torch.where((state == DEAD)[:, None], 0, rows.stack)
    depth = (stack > 0).sum(1)
    # The state, then the frames that a token may pop, innermost first: [B, L], as all that follows with these two dimensions.
    lane = torch.arange(tables.round.shape[0] if stack.shape[1] else 0, device=stack.device)
    at = depth[:, None] - 1 - lane
    there, at = at >= 0, at.clamp(min=0)
    frames = torch.where(there, stack.gather(1, at).to(torch.int64), DEAD)
    places = torch.cat([state[:, None], frames], 1)
    # The tokens needed for the frames below each, and how many frames count as nesting before it is popped.
    framed = torch.where(stack > 0, tables.cost[first[:, None] + stack], 0)
    below = _left_over(framed.sum(1), torch.where(there, framed.gather(1, at), 0))
    counted = _left_over(tables.nested(slot, stack, depth), 1 - tables.of_blocks(slot, frames))
    needed = below[:, 0] + tables.cost.index_select(0, first + state)
    default = base.default.index_select(0, slot)
    leads = torch.where(default == STAY, needed[:, None], tables.cost[first[:, None] + default.clamp(min=0)])
    # An extra column absorbs the padding.
    unlisted = torch.nn.functional.pad(torch.where(default == DEAD, ILLEGAL, leads), (0, 1), value=ILLEGAL).to(
        default.dtype
    )
    nothing = torch.full_like(unlisted, ILLEGAL)
    shape = (*places.shape, base.lane.shape[0])
    classes, targets, real = (column.reshape(shape) for column in base.listings((first[:, None] + places).reshape(-1)))
    # Padding contains rows of other automata, whose targets may be out of range in this one's tables.
    targets = torch.where(real, targets, DEAD)
    outside, which = tables.actions(targets)
    rest = tables.rest[which].to(torch.int64)
    fits = outside & (counted[:, :, None] + tables.height[which] <= most[:, None, None])
    if tables.counting.shape[1]:
        # Only the state has a count.
        fits = torch.cat([fits[:, :1] & tables.counted(which[:, :1], count), fits[:, 1:]], 1)
    stays = tables.cost[first[:, None, None] + torch.where(outside, DEAD, targets).clamp(min=0)]
    cost = torch.where(outside, tables.action_cost[which], stays) + below[:, :, None]
    cost = cost.masked_fill((targets == DEAD) | (outside & ~fits), ILLEGAL).masked_fill(targets == FINISHED, -1)
    # The rest of a token, after the frame that it pops, costs the same as in the next place.
    reads, listed = fits & (rest > 0), torch.where(real, classes, nothing.shape[1] - 1).to(torch.int64)
    costs, cost = nothing, cost.to(nothing.dtype)
    for level in range(shape[1] - 1, -1, -1):
        own = torch.where(reads[:, level], costs.gather(1, rest[:, level]), cost[:, level])
        costs = (nothing if level else unlisted).scatter(1, listed[:, level], own)
    # With more tokens left than anything costs, everything legal fits.
    limit = torch.where(rows.left == NO_LIMIT, ILLEGAL, torch.maximum(rows.left, needed).clamp(max=ILLEGAL)) - 1
    return state, costs <= limit[:, None]
