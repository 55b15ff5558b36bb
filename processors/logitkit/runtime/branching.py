"""Rows that may be in several configurations at once: advance and mask, on the host and with tensors only.

A language that is not deterministic has an automaton with layers: each has one of the actions of every state and token. A token
takes every configuration of a row through every layer. Each legal action is a configuration afterwards; equal ones are merged.
A row keeps a limited number of them, those with the fewest open frames first; if one is dropped for that, the row is
*narrowed*: it may refuse some texts of the language, but it never allows others, and is never stuck, because each configuration
can be completed.

By hand, for palindromes `s ::= "a" s "a" | "b" s "b" | ""`: after `a` there is one configuration, inside of the first rule. The
next `a` opens another one, or closes it: two configurations, with two frames and with none.
"""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.compiler.tokens.tables.packed_stacks import FRAME_BYTES
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.kernels import switch
from logitkit.protocol.calls import by_tensors, token_columns
from logitkit.protocol.context import Context
from logitkit.runtime.automaton_registry import NEUTRAL, AutomatonRegistry
from logitkit.runtime.branching_state import BranchingState, Configurations
from logitkit.runtime.logit_arrays import as_array
from logitkit.runtime.registry_tables import keep_allowed
from logitkit.runtime.stack_tables import StackRows, StackTables, advance_stacks, legal_stacks
from logitkit.runtime.width import check_width

__all__ = ["Branching", "advance_branching", "followed", "mask_branching"]

# More than any number of frames.
LAST = 2**30


class Branching:
    """The step of rows that may branch, for batches with rows that do not take it."""

    @classmethod
    def neutral_state(cls, context: Context) -> BranchingState:
        """Return the state of rows without a constraint."""
        return BranchingState.neutral(context)


def followed(
    automaton: TokenAutomaton, configurations: Configurations, token: int, most: int
) -> tuple[Configurations, bool]:
    """Return the configurations after a token, and whether some were dropped because there were more than `most`."""
    if token == -1:
        return configurations, False
    found: dict[tuple[int, bytes], None] = {}
    for layer in (automaton, *automaton.layers):
        for state, stack in configurations:
            after = layer.step(state, stack, token) if state >= FIRST_STATE else (state, stack)
            if after[0] != DEAD:
                found[after] = None
    if len(found) < 2:
        return [*found], False
    kept = sorted(found, key=lambda configuration: -(-len(configuration[1].rstrip(b"\0")) // FRAME_BYTES))
    return kept[:most], len(kept) > most


def advance_branching(registry: AutomatonRegistry, state: BranchingState, tokens: Tensor) -> BranchingState:
    """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
    if by_tensors(state.states):
        layout = registry.layout_on(state.states.device)
        if switch.runs_on(state.states, tokens):
            from logitkit.kernels.branching_step import branching_step

            made = branching_step(layout.kernel_tables, state[:2], state[2:], tokens)
            if made is not None:
                return BranchingState(*state[:2], made[0], made[1], state.most, made[2])
        for column in token_columns(tokens):
            state = _advanced(layout.stacks, state, column)
        return state
    rows, narrowed = state.configurations(), state.narrowed.tolist()
    runs = tokens.tolist() if tokens.dim() == 2 else [[t] for t in tokens.tolist()]
    columns = (state.slots[:, 0].tolist(), state.generations[:, 0].tolist(), state.most.tolist(), runs)
    for row, (slot, generation, most, run) in enumerate(zip(*columns, strict=True)):
        if slot == NEUTRAL:
            continue
        automaton = registry.automaton(slot, generation)
        for token in run:
            rows[row], dropped = followed(automaton, rows[row], token, most)
            narrowed[row] = narrowed[row] or dropped
    return state.with_configurations(rows, narrowed)


def mask_branching(registry: AutomatonRegistry, state: BranchingState, logits: Tensor) -> Tensor:
    """Return the logits with every illegal token at -inf; see `Constraint.process_logits`."""
    if by_tensors(logits):
        layout = registry.layout_on(logits.device)
        layout.tables.check_width(logits.shape[1])
        if switch.runs_on(state.states, logits):
            from logitkit.kernels.branching_step import branching_step

            if branching_step(layout.kernel_tables, state[:2], state[2:], None, logits) is not None:
                return logits
        now, allowed = _legal(layout.stacks, state)
        return keep_allowed(layout.tables, state.slots[:, 0], now, allowed, logits)
    array, never, zero = as_array(logits)
    width = array.shape[1]
    columns = (state.slots[:, 0].tolist(), state.generations[:, 0].tolist(), state.configurations())
    for row, (slot, generation, configurations) in enumerate(zip(*columns, strict=True)):
        if slot == NEUTRAL:
            continue
        automaton: TokenAutomaton = registry.automaton(slot, generation)
        first = configurations[0][0] if configurations else DEAD
        if first < FIRST_STATE:
            found = registry.mask(slot, generation, first)
        else:
            layers = (automaton, *automaton.layers)
            at = tuple(
                [
                    tuple([layer.mask_key(*configuration, NO_LIMIT) for configuration in configurations])
                    for layer in layers
                ]
            )
            found = registry.mask(slot, generation, at)
        if width != found.size:
            check_width(found.size, width)
        found.apply(array[row], never, zero)
    return logits


def _layer(state: BranchingState, number: int) -> tuple[Tensor, Tensor, StackRows]:
    """Return the slots and generations of a layer for each configuration, and the configurations as rows."""
    rows, count = state.states.shape
    slot, generation = (
        part[:, number, None].expand(rows, count).reshape(-1) for part in (state.slots, state.generations)
    )
    states, stacks = state.states.reshape(-1), state.stacks.flatten(0, 1)
    return slot, generation, StackRows(states, stacks, torch.full_like(states, NO_LIMIT))


def _advanced(tables: StackTables, state: BranchingState, token: Tensor) -> BranchingState:
    """Return the state after one token per row, [B]; -1 changes nothing."""
    rows, count = state.states.shape
    of_each = token[:, None].expand(rows, count).reshape(-1)
    made = []
    for number in range(state.slots.shape[1]):
        slot, generation, before = _layer(state, number)
        after = advance_stacks(tables, slot, generation, before, of_each)
        made.append((after.state if number == 0 else torch.where(slot == NEUTRAL, DEAD, after.state), after.stack))
    states = torch.cat([found.view(rows, count) for found, _ in made], 1)
    stacks = torch.cat([found.view(state.stacks.shape) for _, found in made], 1)
    stacks = torch.where((states == DEAD)[:, :, None], 0, stacks)
    left = (states != DEAD) & ~_repeated(states, stacks)
    depth = torch.where(left, (stacks > 0).sum(2), LAST)
    order = depth.argsort(dim=1, stable=True)[:, :count]
    lane = torch.arange(count, device=states.device)
    kept = left.gather(1, order) & (lane < state.most[:, None])
    stacks = stacks.gather(1, order[:, :, None].expand(rows, count, stacks.shape[2]))
    return state._replace(
        states=torch.where(kept, states.gather(1, order), DEAD),
        stacks=torch.where(kept[:, :, None], stacks, 0),
        narrowed=state.narrowed | (left.sum(1) > state.most),
    )


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


def _legal(tables: StackTables, state: BranchingState) -> tuple[Tensor, Tensor]:
    """Return a state of each row, and which classes are legal, [B, C + 1] bool, as `legal_stacks` does."""
    rows, count = state.states.shape
    legal: Tensor | None = None
    now = state.states
    for number in range(state.slots.shape[1]):
        slot, generation, configurations = _layer(state, number)
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
