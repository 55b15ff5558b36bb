"""Runs a constraint by every executor at once, and compares each mask and each state with the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import Tensor

import logitkit as lk
from logitkit.protocol import leaves
from logitkit.runtime.constraint_row import ConstraintRow
from logitkit.runtime.single_row import row_of
from logitkit.runtime.walk import Walk
from tests.batches import tensor_path
from tests.oracles.machine import Machine, Row

__all__ = ["compare"]


@dataclass
class Writing:
    """One row, as the oracle and the executors of single rows have it.

    Args:
        machine: The oracle.
        row: Its configurations.
        left: The tokens left to it; None: they are not counted.
        single: The row in Python numbers.
        walk: The row as explanations and completions follow it.
        tokens: The tokens up to the end of the text, or to the first illegal one.
        finished: Whether it has had EOS.
    """

    machine: Machine
    row: Row
    left: int | None
    single: ConstraintRow
    walk: Walk
    tokens: list[int] = field(default_factory=list)
    finished: bool = False

    @classmethod
    def of(cls, constraint: Any, machine: Machine, context: lk.Context, left: int | None) -> Writing:
        """Return the row of the empty text."""
        walk = Walk.start(constraint.automaton, -1 if left is None else left)
        single = row_of(constraint, constraint.init_state(context))
        assert single is not None
        return cls(machine, machine.start(), left, single, walk)

    @property
    def is_dead(self) -> bool:
        return not self.row and not self.finished

    def wanted(self, vocabulary: lk.Vocabulary) -> set[int]:
        """Return the tokens that the oracle allows."""
        if self.finished:
            return {*vocabulary.eos_ids, *([] if vocabulary.pad_id is None else [vocabulary.pad_id])}
        return self.machine.legal(self.row, self.left)

    def advance(self, token: int) -> None:
        """Write one more token; -1 means no token."""
        if token == -1:
            return
        self.single.advance(token)
        if self.finished or self.is_dead:
            return
        self.tokens.append(token)
        self.walk = self.walk.after(token)
        if token in self.machine.ends:
            self.finished, self.row = self.machine.is_complete(self.row), frozenset()
        else:
            self.row = self.machine.after(self.row, token)
        self.left = self.left and self.left - 1


def compare(
    pairs: Sequence[tuple[Any, Machine]],
    chance: Random,
    *,
    closing: int | None = None,
    exact: bool = True,
    steps: int = 8,
    by_bytes: bool = True,
) -> None:
    """Write random texts in one batch, by every executor.

    Args:
        pairs: The constraint and the oracle of each row.
        chance: Decides the texts.
        closing: The most tokens of a text.
        exact: Whether all legal tokens must be allowed; if not, only legal ones may be, and no row may get stuck.
        steps: The most tokens of a text that is looked at.
        by_bytes: Whether only the bytes of a text matter, however tokens spell it.
    """
    constraint, vocabulary = pairs[0][0], pairs[0][0].vocabulary
    context = lk.Context.of([[]], vocabulary.size)
    start = lk.concatenate([one.init_state(context) for one, _ in pairs])
    rows = [Writing.of(one, machine, context, closing) for one, machine in pairs]
    state, columns = start, list[list[int]]()
    for step in range(steps + 1):
        masks = masks_of(constraint, state, rows)
        narrowed = state.narrowed.tolist() if hasattr(state, "narrowed") else [False] * len(rows)
        for number, row in enumerate(rows):
            wanted = row.wanted(vocabulary)
            looked_at = {*row.machine.tokens, *vocabulary.eos_ids}
            for executor, mask in masks.items():
                found = set(mask[number].nonzero().flatten().tolist()) & looked_at
                # Walks keep more configurations than rows do.
                if exact and (not narrowed[number] or executor == "walk"):
                    assert found == wanted, (executor, row.tokens, "missing", wanted - found, "illegal", found - wanted)
                else:
                    assert found, (executor, row.tokens, "no token is legal")
                    assert found <= wanted, (executor, row.tokens, "illegal", found - wanted)
        assert constraint.is_dead(state).tolist() == [row.is_dead for row in rows]
        assert constraint.is_finished(state).tolist() == [row.finished for row in rows]
        if step == steps:
            break
        tokens = [chosen(masks["host"][number], row, row.wanted(vocabulary), chance) for number, row in enumerate(rows)]
        columns.append(tokens)
        state = advanced(constraint, state, torch.tensor(tokens))
        for row, token in zip(rows, tokens, strict=True):
            row.advance(token)
    # All tokens at once lead to the same state.
    assert same(state, advanced(constraint, start, torch.tensor(columns).T))
    for (one, machine), row in zip(pairs, rows, strict=True):
        check_matches(one, machine, row.tokens, by_bytes)


def masks_of(constraint: Any, state: Any, rows: list[Writing]) -> dict[str, Tensor]:
    """Return which tokens are legal, [B, V] bool, by each executor."""
    size = constraint.vocabulary.size
    context, nothing = lk.Context.of([[]] * len(rows), size), torch.zeros(len(rows), size)
    found = {"host": constraint.process_logits(state, nothing.clone(), context)[1] == 0}
    with tensor_path():
        found["tensors"] = constraint.process_logits(state, nothing.clone(), context)[1] == 0
    found["allowed_tokens"] = constraint.allowed_tokens(state)
    found["single row"] = torch.cat([row.single.processed(nothing[:1]) == 0 for row in rows])
    # A walk says nothing about rows that have ended.
    found["walk"] = torch.stack(
        [
            torch.from_numpy(r.walk.legal()[r.walk.automaton.class_of]) if r.row else m
            for r, m in zip(rows, found["host"], strict=True)
        ]
    )
    return found


def advanced(constraint: Any, state: Any, tokens: Tensor) -> Any:
    """Return the state after tokens, found on the host and by tensors alike."""
    after = constraint.advance(state, tokens)
    with tensor_path():
        assert same(after, constraint.advance(state, tokens))
    return after


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))


def chosen(legal: Tensor, row: Writing, wanted: set[int], chance: Random) -> int:
    """Return the next token of a row: mostly a legal one, often the longest, sometimes EOS, none, or an illegal one.

    Tokens that only the oracle allows are left out: they end a row that has lost configurations.
    """
    often = chance.random()
    if often < 0.05:
        return -1
    if often < 0.1 and row.left is None:
        return chance.choice([token for token in row.machine.tokens if legal[token] or token not in wanted])
    ids = [token for token in [*row.machine.tokens, *row.machine.ends] if legal[token]]
    going_on = [token for token in ids if token not in row.machine.ends]
    if going_on and chance.random() < 0.25:
        return max(going_on, key=lambda token: len(row.machine.tokens[token] or b""))
    return chance.choice(going_on) if going_on and chance.random() < 0.9 else chance.choice(ids)


def check_matches(constraint: Any, machine: Machine, tokens: list[int], by_bytes: bool) -> None:
    """Ask whether each beginning of a text is a whole text, up to the name of a special token, which may stand for the token."""
    names = {*constraint.vocabulary.special} | {(machine.tokens[token] or b"").decode() for token in machine.named}
    row, text = machine.start(), b""
    for token in tokens:
        if token in machine.ends or machine.tokens[token] is None:
            return
        row, text = machine.after(row, token), text + (machine.tokens[token] or b"")
        if any(name.encode() in text for name in names):
            return
        if by_bytes or machine.is_complete(row):
            assert constraint.matches(text) == machine.is_complete(row), text
