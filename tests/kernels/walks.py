"""Random walks of rows under constraints, in which the kernel is compared with tensor operations, on a CPU or a GPU.

A batch mixes automata of a registry with neutral, stale, dead and finished rows. Tokens are legal, illegal, absent and
impossible. Logits have four dtypes, three layouts in memory, columns beyond the vocabulary, NaN and infinities. Some rows have
nothing left.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

import logitkit as lk
from logitkit.kernels.constraint_step import constraint_step
from logitkit.runtime.registry_layout import RegistryLayout
from logitkit.runtime.registry_tables import advance_tensors, keep_allowed, legal_tensors
from logitkit.runtime.stack_tables import StackRows, advance_stacks, legal_stacks
from tests.registry import of_kind, vocabulary

__all__ = ["DTYPES", "Walk", "batches", "given_logits", "in_memory", "same"]

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}

PATTERNS = (
    r"[a-z]*",
    r"\d{4}-\d{2}-\d{2}",
    r"[a-z]{1,40}(,[0-9]{1,20})*",
    r"\w+(?:\W+\w+)*",
    r"(é|€|a\n){2,9}",
    r"(ab|cat)+-?",
)
# After "sss", the digits 1, 2 and 3 are banned, by different states that one falls back to.
BANNED = [letter * k + str(k) for letter in "abcdefghijklmnopqrstuvwxyz,-" for k in range(1, 10)]
LIST = {"type": "array", "items": {"$ref": "#"}}
STRING = {"type": "string", "pattern": "^[a-z]*$", "minLength": 20, "maxLength": 900}
CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "cat": {"enum": ["dog", "og"]}, "b": {"type": "null"}},
    "required": ["a"],
    "additionalProperties": False,
}
TEXT = {"type": "object", "properties": {"a": STRING, "b": {"type": "array", "items": STRING}}}
LONG = {"type": "array", "items": {"type": "integer", "maximum": 99}, "minItems": 3, "maxItems": 300}
RECORDS = {"type": "array", "maxItems": 90, "items": {"type": "object", "properties": {"a": LONG}, "required": ["a"]}}
SUM = 'root ::= sum\nsum ::= term ("-" term)*\nterm ::= [0-9]+ | "[" sum "]"\n'
CLOSING: tuple[tuple[Any, int | bool], ...] = (
    (CLOSED, 30),
    (LIST, 12),
    (TEXT, 70),
    (LONG, 40),
    (LIST, True),
    (CLOSED, True),
)


@cache
def batches(v: lk.Vocabulary) -> dict[str, list[Any]]:
    """Return constraints that can share a batch, by name."""
    flat = [
        *(lk.Regex(pattern, v) for pattern in PATTERNS),
        lk.Choice(["cat", "catalogue", "dog", "og", "é"], v),
        *(lk.BannedStrings(words, v) for words in (BANNED, ["Cat", "aa"])),
        lk.ForcedPrefix("ab", v),
        lk.then(lk.BannedStrings(["ab"], v), lk.Regex("[0-9]+", v), "og-"),
    ]
    nesting = [
        *(lk.JsonSchema(schema, v) for schema in (CLOSED, True, LIST, TEXT, LONG, RECORDS)),
        *(lk.JsonSchema(schema, v, closing=most) for schema, most in CLOSING),
        lk.JsonSchema(LIST, v, max_depth=3),
        lk.Grammar(SUM, v),
        lk.Grammar(SUM, v, closing=9, max_depth=4),
        lk.then(None, lk.JsonSchema(TEXT, v), "og-"),
    ]
    own = (
        {kind: [row.processor for row in of_kind(kind)] for kind in ("automaton", "pushdown")}
        if v is vocabulary()
        else {}
    )
    return {"flat": flat, "nesting": nesting, **own}


def same(a: Tensor, b: Tensor) -> bool:
    """Whether tensors agree bit by bit."""
    bits = BITS[a.dtype.itemsize] if a.is_floating_point() else a.dtype
    return a.dtype == b.dtype and a.contiguous().view(bits).equal(b.contiguous().view(bits))


def given_logits(chance: random.Random, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return logits with some NaN and infinities."""
    generator = torch.Generator(device).manual_seed(chance.getrandbits(32))
    logits = (4 * torch.randn(shape, generator=generator, device=device)).to(dtype)
    odd = torch.rand(shape, generator=generator, device=device)
    for at, value in enumerate((torch.nan, -torch.nan, torch.inf, -torch.inf)):
        logits[(odd > 0.02 * at) & (odd < 0.02 * (at + 1))] = value
    return logits


def in_memory(logits: Tensor, layout: int) -> Tensor:
    """Return a copy of logits in one of three layouts in memory: with room between rows, between columns too, or transposed."""
    (rows, columns), new = logits.shape, logits.new_zeros
    wide = new(rows, 2 * columns + 3)
    views = (wide[:, 3 : 3 + columns], wide[:, 1 : 1 + 2 * columns : 2], new(columns, rows).T)
    return views[layout].copy_(logits)


class Walk(NamedTuple):
    """Rows of a registry, and how they go on.

    Args:
        layout: The tables.
        slot: [B].
        generation: [B], of which some are stale.
        rows: The positions.
    """

    layout: RegistryLayout
    slot: Tensor
    generation: Tensor
    rows: StackRows

    @classmethod
    def start(cls, processors: Sequence[Any], chance: random.Random, most: int, device: torch.device) -> Walk:
        """Start up to `most` rows of some of the processors, and a neutral one."""
        # Some rows have fewer tokens left than they need.
        context = lk.Context.of([[]], processors[0].vocabulary.size, device, max_length=chance.choice((3, 25)))
        starts = [chance.choice(processors).init_state(context) for _ in range(chance.randint(1, most))]
        state = lk.concatenate([*starts, type(processors[0]).neutral_state(context)])
        rows = StackRows(state.at.state, state.stack, state.left)
        return cls(processors[0].registry.layout_on(device), state.at.slot, state.at.generation, rows)

    def advanced(self, token: Tensor) -> StackRows:
        """Return the rows after one token each, by tensor operations."""
        if self.rows.stack.shape[1]:
            return advance_stacks(self.layout.stacks, self.slot, self.generation, self.rows, token)
        state = advance_tensors(self.layout.tables, self.slot, self.generation, self.rows.state, token)
        return self.rows._replace(state=state)

    def masked(self, logits: Tensor) -> Tensor:
        """Return the masked logits, by tensor operations."""
        if self.rows.stack.shape[1]:
            now, legal = legal_stacks(self.layout.stacks, self.slot, self.generation, self.rows)
        else:
            now, legal = legal_tensors(self.layout.tables, self.slot, self.generation, self.rows.state)
        return keep_allowed(self.layout.tables, self.slot, now, legal, logits)

    def by_kernel(self, tokens: Tensor | None, logits: Tensor | None) -> StackRows:
        """Return the rows after tokens, and mask logits in place, by one launch."""
        after = constraint_step(self.layout.kernel_tables, self.slot, self.generation, self.rows, tokens, logits)
        assert after is not None
        return StackRows(*after)

    def tokens(self, chance: random.Random, odd: float, liked: Tensor) -> Tensor:
        """Return legal tokens, but for a share of absent, illegal and impossible ones."""
        count, size, device = len(self.slot), len(liked), self.slot.device
        generator = torch.Generator(device).manual_seed(chance.getrandbits(32))
        legal = self.masked(torch.zeros(count, size, device=device)) == 0
        tokens = (torch.rand(count, size, generator=generator, device=device) * legal * liked).argmax(1)
        which = torch.rand(count, generator=generator, device=device)
        other = torch.randint(-2, size + 2, (count,), generator=generator, device=device)
        return torch.where(which < odd, torch.where(which < odd / 2, -1, other), tokens)

    def compared(self, chance: random.Random, tokens: Tensor, at_once: bool, seen: Counter[str]) -> StackRows:
        """Compare a step of the kernel with that of tensor operations, and return the rows after it.

        Args:
            chance: Draws the logits.
            tokens: [B].
            at_once: Whether one launch advances and masks.
            seen: Counts the rows, by what they are.
        """
        after = self.advanced(tokens)
        there = self._replace(rows=after)
        size = self.layout.tables.class_of.shape[1]
        shape = len(self.slot), size + chance.choice((0, 5, 40))
        logits = given_logits(chance, shape, chance.choice(DTYPES), self.slot.device)
        # In some rows, nothing is left of what is legal.
        emptied = torch.tensor([chance.random() < 0.15 for _ in range(shape[0])], device=logits.device)
        legal = there.masked(torch.zeros_like(logits)) == 0
        logits[emptied[:, None] & legal] = chance.choice((-torch.inf, torch.nan))
        ours, before = in_memory(logits, chance.randrange(3)), [part.clone() for part in self.rows]
        found = self.by_kernel(tokens, ours) if at_once else self.by_kernel(tokens, None)
        if not at_once:
            there.by_kernel(None, ours)
        assert all(map(same, before, self.rows))
        assert all(map(same, after, found)), (self.rows, tokens, after, found)
        assert same(there.masked(logits), ours), (after, logits.dtype)
        depth, deeper, live = (self.rows.stack > 0).sum(1), (after.stack > 0).sum(1), after.state > 1
        facts = {
            "dead": after.state == 0,
            "finished": after.state == 1,
            "neutral": self.slot == 0,
            "stale": self.generation != self.layout.tables.generation[self.slot],
            "pushed": live & (deeper > depth),
            "popped": live & (deeper < depth),
            "counted": after.state >> 32 > 0,
            "limited": live & (after.left >= 0),
            "emptied": emptied & live & (self.slot > 0),
        }
        seen.update({"rows": shape[0]} | {fact: int(which.sum()) for fact, which in facts.items()})
        return after

    def go(self, chance: random.Random, steps: int, skipped: int, seen: Counter[str]) -> None:
        """Walk some steps, of which up to `skipped` after each one are not compared, since frames and counts come late."""
        walk, size = self, self.layout.tables.class_of.shape[1]
        # Each walk likes some tokens and not others, so that it opens many brackets, or writes long strings. None likes EOS.
        generator = torch.Generator(self.slot.device).manual_seed(chance.getrandbits(32))
        liked = torch.rand(size, generator=generator, device=self.slot.device) ** 3 + 0.01
        liked[self.layout.tables.eos_ids] = 0.001
        for step in range(steps):
            for _ in range(chance.randint(0, skipped)):
                walk = walk._replace(rows=walk.advanced(walk.tokens(chance, 0.01, liked)))
            after = walk.compared(chance, walk.tokens(chance, 0.12, liked), step % 2 > 0, seen)
            # Rows become stale, come back, or begin again.
            lost, again = (torch.rand(len(self.slot), generator=generator, device=self.slot.device) for _ in range(2))
            stale = torch.where((lost < 0.02) & (self.slot > 0), walk.generation - 1, walk.generation)
            generation = torch.where(lost > 0.8, self.generation, stale)
            begins = (again < 0.5) & (after.state < 2)
            rows = [
                torch.where(begins.view(-1, *[1] * (old.dim() - 1)), first, old)
                for old, first in zip(after, self.rows, strict=True)
            ]
            walk = walk._replace(generation=generation, rows=StackRows(*rows))
