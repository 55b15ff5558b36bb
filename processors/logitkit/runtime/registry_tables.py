"""The automata of a registry as a few tensors, with two operations: advance and mask. No loop over rows, no host read.

Accelerators and `torch.compile` take this path. All shapes depend on the registry alone, never on a state.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.compiler.tokens.tables.token_table import STAY
from logitkit.runtime.logit_arrays import check_width

# Rows before those of the first automaton, which list no classes: the states of neutral rows.
NEUTRAL_ROWS = FIRST_STATE + 2


class RegistryTables(NamedTuple):
    """The columns of `Records`, with spare capacity; an unused slot is neutral and its generation never matches.

    Args:
        generation: [N] int64, current generation of each slot.
        class_of: [N, V] uint8, int16 or int32, class of each token.
        default: [N, C] int32, default target of each class.
        first_row: [N] int64, the first row of each slot.
        row_start: [R] int32, where each row starts in `row_class` and `row_target`.
        row_end: [R] int32, where it ends.
        row_class: [P] int32, the classes listed in each row: the exceptions to the default.
        row_target: [P] int32, their targets.
        fallback: [R] int32, the row that each row falls back to; a chain ends at itself.
        lane: [K] 0, 1, ..., K - 1, for the longest row.
        link: [L] for the longest chain of fallbacks; only its length matters.
        eos_ids: Ids that end a sequence.
        finished_ids: Ids that a finished row may emit.
    """

    generation: Tensor
    class_of: Tensor
    default: Tensor
    first_row: Tensor
    row_start: Tensor
    row_end: Tensor
    row_class: Tensor
    row_target: Tensor
    fallback: Tensor
    lane: Tensor
    link: Tensor
    eos_ids: Tensor
    finished_ids: Tensor

    def check_width(self, columns: int) -> None:
        """Raise `VocabularyError` if logits have fewer columns than the vocabulary has ids, or far more."""
        # Without any automaton, the tables have space for one id and all rows are neutral.
        if self.class_of.shape[1] > 1:
            check_width(self.class_of.shape[1], columns)

    def live(self, slot: Tensor, generation: Tensor, state: Tensor) -> Tensor:
        """Return the states, `DEAD` where the automaton of a row no longer exists."""
        return torch.where(generation == self.generation.index_select(0, slot), state, DEAD)

    def chain(self, slot: Tensor, state: Tensor) -> list[Tensor]:
        """Return the rows of some states, then those they fall back to, up to the length of the registry's longest chain."""
        rows = [self.first_row.index_select(0, slot) + state]
        for _ in range(self.link.shape[0] - 1):
            rows.append(self.fallback.index_select(0, rows[-1]))
        return rows

    def listings(self, row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what some rows list, padded: classes [B, K], targets [B, K], and which entries are real."""
        begin = self.row_start.index_select(0, row)
        count = self.row_end.index_select(0, row) - begin
        place = (begin[:, None] + self.lane).clamp(max=self.row_class.shape[0] - 1)
        return self.row_class[place], self.row_target[place], self.lane < count[:, None]

    def listed(self, row: Tensor, symbol: Tensor, default: Tensor) -> Tensor:
        """Return the target that each row lists for one class, or the default: [B] int64."""
        classes, targets, real = self.listings(row)
        hit = real & (classes == symbol[:, None])
        return torch.where(hit.any(1), (targets * hit).sum(1), default)

    def targets(self, slot: Tensor, state: Tensor, token: Tensor) -> Tensor:
        """Return the targets of one token per row, [B] int64; `DEAD` for an id out of range."""
        size = self.class_of.shape[1]
        symbol = self.class_of[slot, token.clamp(0, size - 1)].to(torch.int64)
        target = self.default[slot, symbol].to(torch.int64)
        for row in reversed(self.chain(slot, state)):
            target = self.listed(row, symbol, target)
        target = torch.where(target == STAY, state, target)
        return torch.where((token < size) & (token >= 0), target, DEAD)


def advance_tensors(tables: RegistryTables, slot: Tensor, generation: Tensor, state: Tensor, token: Tensor) -> Tensor:
    """Return the states after one token per row: everything is [B] int64; token -1 changes nothing.

    A stale slot or an id out of range leads to `DEAD`.
    """
    state = tables.live(slot, generation, state)
    moves = (state >= FIRST_STATE) & (token != -1)
    return torch.where(moves, tables.targets(slot, state, token), state)


def legal_tensors(tables: RegistryTables, slot: Tensor, generation: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return the states, and which classes are legal, [B, C + 1] bool; the last column means nothing."""
    state = tables.live(slot, generation, state)
    # Classes allowed by default, corrected by the rows; an extra column absorbs the padding.
    legal = torch.nn.functional.pad(tables.default.index_select(0, slot) != DEAD, (0, 1))
    for row in reversed(tables.chain(slot, state)):
        classes, targets, real = tables.listings(row)
        dummy = torch.full_like(classes, legal.shape[1] - 1)
        legal = legal.scatter(1, torch.where(real, classes, dummy).to(torch.int64), targets != DEAD)
    return state, legal


def allowed_ids(tables: RegistryTables, slot: Tensor, state: Tensor, legal: Tensor) -> Tensor:
    """Return the ids of the legal classes, [B, C] bool, or of the end of a finished row: [B, V] bool, none in a dead row."""
    legal = legal & (state >= FIRST_STATE)[:, None]
    allowed = legal.gather(1, tables.class_of.index_select(0, slot).to(torch.int64))
    ends = tables.finished_ids
    return allowed.index_copy_(1, ends, allowed.index_select(1, ends) | (state == FINISHED)[:, None])


def kept_ids(tables: RegistryTables, slot: Tensor, state: Tensor, legal: Tensor, columns: int) -> Tensor:
    """Return the ids that `keep_allowed` leaves of finite logits, [B, columns] bool.

    Raises:
        VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
    """
    tables.check_width(columns)
    allowed = allowed_ids(tables, slot, state, legal)
    neutral = (slot == 0)[:, None]
    allowed |= neutral
    dead = ~allowed.any(1, keepdim=True)
    allowed.index_copy_(1, tables.eos_ids, allowed.index_select(1, tables.eos_ids) | dead)
    missing = columns - allowed.shape[1]
    return torch.cat([allowed, neutral.expand(-1, missing)], 1) if missing else allowed


def keep_allowed(tables: RegistryTables, slot: Tensor, state: Tensor, legal: Tensor, logits: Tensor) -> Tensor:
    """Return the masked logits, [B, W]: those of the legal classes, [B, C] bool, remain; rows without any token left end.

    Raises:
        VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
    """
    size = tables.class_of.shape[1]
    tables.check_width(logits.shape[1])
    never = float("-inf")
    allowed = allowed_ids(tables, slot, state, legal)
    neutral = (slot == 0)[:, None]
    # NaN counts as -inf.
    masked = torch.where((allowed & ~logits[:, :size].isnan()) | neutral, logits[:, :size], never)
    eos = masked.index_select(1, tables.eos_ids)
    # The state is dead, or everything that it allows was already -inf: no token is left, so the row ends.
    dead = (masked == never).all(1, keepdim=True) & ~neutral
    masked.index_copy_(1, tables.eos_ids, eos.masked_fill(dead, 0))
    if logits.shape[1] > size:
        rest = torch.where(neutral, logits[:, size:], never)
        masked = torch.cat([masked, rest], 1)
    return masked
