"""The cases that the laws run on: the prompts, tokens and logits of a few rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import torch
from torch import Tensor

from logitkit.protocol.context import Context

__all__ = ["Case", "drawn", "shrunk"]

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

MOST_ROWS, MOST_STEPS, LONGEST_PROMPT = 4, 6, 5

# More than the prompt and the tokens of any case have together.
MAX_LENGTH = 64

# Seeds that stand for fixed logits instead of random ones.
ZERO, MASKED = 0, -1
SIMPLE = {ZERO: "logits of zero", MASKED: "logits of zero with -inf in the last column"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A few rows to run a processor on.

    Args:
        prompts: The prompt of each row.
        tokens: The tokens that each row commits, -1 at a step without one; all rows have the same number of steps.
        order: The rows that a law selects, in their new order; rows may repeat.
        seed: The seed of the random logits, from 1; or one of `SIMPLE`.
        dtype: The dtype of the logits.
        columns: The number of columns of the logits.
    """

    prompts: tuple[tuple[int, ...], ...]
    tokens: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    seed: int
    dtype: torch.dtype
    columns: int

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.tokens[0])

    def context(self) -> Context:
        """Return the context before the first token."""
        return Context.of(self.prompts, self.columns, max_length=MAX_LENGTH)

    def committed(self) -> Tensor:
        """Return the tokens, [B, T] int64."""
        return torch.tensor(self.tokens, dtype=torch.int64).reshape(len(self.tokens), self.steps)

    def logits(self) -> Tensor:
        """Return the logits before the first step and after each, [T + 1, B, V]."""
        shape = (self.steps + 1, len(self.prompts), self.columns)
        if self.seed in SIMPLE:
            found = torch.zeros(shape, dtype=self.dtype)
            found[:, :, self.columns - (self.seed == MASKED) :] = -torch.inf
            return found
        numbers = torch.Generator().manual_seed(self.seed)
        ordinary = torch.randn(shape, generator=numbers) * 8
        most = torch.finfo(self.dtype).max
        odd = torch.tensor([0.0, -0.0, most, -most, -torch.inf])
        which = torch.randint(0, 8 * len(odd), shape, generator=numbers)
        found = torch.where(which < len(odd), odd[which % len(odd)], ordinary).to(self.dtype)
        # Engines give every row at least one finite logit.
        found[:, :, 0] = 0
        return found

    def __str__(self) -> str:
        logits = SIMPLE.get(self.seed, f"logits of seed {self.seed}")
        prompts, tokens = ([list(row) for row in rows] for rows in (self.prompts, self.tokens))
        shown = f"prompts {prompts}, tokens {tokens}, {logits} in {self.dtype}"
        return shown if self.order == tuple(range(len(self.prompts))) else f"{shown}, rows {list(self.order)} picked"


def drawn(numbers: Random, columns: int, legal: Callable[[Case, int], list[list[int]]]) -> Case:
    """Draw a case.

    Args:
        numbers: The source of random numbers.
        columns: The number of columns of the logits.
        legal: Takes a case and a number of steps, and returns up to that many tokens for each row, each allowed by the processor.
            With random tokens alone, the text would soon leave the language of a constraint.
    """
    rows, steps = numbers.randint(1, MOST_ROWS), numbers.randint(0, MOST_STEPS)
    prompts = tuple(
        tuple(numbers.randrange(columns) for _ in range(numbers.randint(0, LONGEST_PROMPT))) for _ in range(rows)
    )
    case = Case(
        prompts=prompts,
        tokens=((),) * rows,
        order=tuple(numbers.randrange(rows) for _ in range(numbers.randint(1, rows + 1))),
        seed=numbers.randint(ZERO, 10**6),
        dtype=numbers.choice(DTYPES),
        columns=columns,
    )
    tokens = []
    for allowed in legal(case, steps):
        line = allowed[: numbers.randint(0, len(allowed))]
        while len(line) < steps:
            # The four smallest ids come often, so that tokens repeat.
            line.append(numbers.choice((-1, numbers.randrange(min(columns, 4)), numbers.randrange(columns))))
        # A row may lack a token at any step.
        if numbers.randint(0, 1):
            line.insert(numbers.randint(0, len(line)), -1)
        tokens.append(tuple(line[:steps]))
    return replace(case, tokens=tuple(tokens))


def shrunk(case: Case, breaks: Callable[[Case], object], tries: int = 300) -> Case:
    """Return the smallest case that still breaks a law, found by making one thing smaller at a time."""
    budget = iter(range(tries))
    found: Case | None = case
    while found is not None:
        case = found
        tried = (smaller for smaller, _ in zip(_smaller(case), budget, strict=False))
        found = next((smaller for smaller in tried if breaks(smaller)), None)
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Yield every case that is one change smaller, the largest changes first."""
    rows = len(case.prompts)
    for row in range(rows if rows > 1 else 0):
        order = tuple(r - (r > row) for r in case.order if r != row) or (0,)
        yield replace(case, prompts=_without(case.prompts, row), tokens=_without(case.tokens, row), order=order)
    for step in range(case.steps):
        yield replace(case, tokens=tuple(_without(line, step) for line in case.tokens))
    if case.order != tuple(range(rows)):
        yield replace(case, order=tuple(range(rows)))
        for place in range(len(case.order) if len(case.order) > 1 else 0):
            yield replace(case, order=_without(case.order, place))
    for row, prompt in enumerate(case.prompts):
        for place in range(len(prompt)):
            shorter = _without(prompt, place)
            yield replace(case, prompts=(*case.prompts[:row], shorter, *case.prompts[row + 1 :]))
    if case.seed > 0:
        yield replace(case, seed=ZERO)
        yield replace(case, seed=MASKED)
    if case.dtype is not torch.float32:
        yield replace(case, dtype=torch.float32)
    for token in sorted({token for line in (*case.prompts, *case.tokens) for token in line if token > 0}):
        yield replace(case, prompts=_renamed(case.prompts, token), tokens=_renamed(case.tokens, token))


def _renamed(rows: tuple[tuple[int, ...], ...], token: int) -> tuple[tuple[int, ...], ...]:
    """Replace a token by id 0."""
    return tuple(tuple(0 if given == token else given for given in row) for row in rows)


def _without(values: tuple, place: int) -> tuple:  # type: ignore[type-arg]
    return values[:place] + values[place + 1 :]
