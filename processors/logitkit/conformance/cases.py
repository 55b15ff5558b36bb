"""Cases on which the laws are tried: the prompts, tokens and logits of a few rows."""

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

# No case needs more positions: prompt and tokens together.
MAX_LENGTH = 64

# Seeds of logits that need not be drawn.
ZERO, MASKED = 0, -1
SIMPLE = {ZERO: "logits of zero", MASKED: "logits of zero with -inf in the last column"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A few rows to run a processor on.

    Args:
        prompts: The prompt of each row.
        tokens: The tokens that each row commits, -1 where it has none; all rows have the same number of steps.
        order: The rows that are picked, in which order, where a law picks some; rows may repeat.
        seed: Draws the logits, from 1; or one of `SIMPLE`.
        dtype: The dtype of the logits.
        columns: How many columns the logits have.
    """

    prompts: tuple[tuple[int, ...], ...]
    tokens: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    seed: int
    dtype: torch.dtype
    columns: int

    @property
    def steps(self) -> int:
        """How many columns of tokens there are."""
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
        shown = f"prompts {_lists(self.prompts)}, tokens {_lists(self.tokens)}, {logits} in {self.dtype}"
        return shown if self.order == tuple(range(len(self.prompts))) else f"{shown}, rows {list(self.order)} picked"


def _lists(rows: tuple[tuple[int, ...], ...]) -> list[list[int]]:
    return [list(row) for row in rows]


def drawn(numbers: Random, columns: int, legal: Callable[[Case, int], list[list[int]]]) -> Case:
    """Draw a case.

    Args:
        numbers: The source of random numbers.
        columns: How many columns the logits have.
        legal: Returns for each row of a case up to so many tokens that a processor allows there one after the other, without
            which a constraint would only be seen after its language has been left.
    """
    rows, steps = numbers.randint(1, MOST_ROWS), numbers.randint(0, MOST_STEPS)
    prompts = tuple(
        tuple(_id(numbers, columns) for _ in range(numbers.randint(0, LONGEST_PROMPT))) for _ in range(rows)
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
            # Among few ids some come twice, as repetition needs.
            line.append(numbers.choice((-1, numbers.randrange(min(columns, 4)), _id(numbers, columns))))
        # A row may lack a token at any step.
        for _ in range(numbers.randint(0, 1)):
            line.insert(numbers.randint(0, len(line)), -1)
        tokens.append(tuple(line[:steps]))
    return replace(case, tokens=tuple(tokens))


def _id(numbers: Random, columns: int) -> int:
    return numbers.randrange(columns)


def shrunk(case: Case, breaks: Callable[[Case], bool], tries: int = 300) -> Case:
    """Return the smallest case that still breaks a law, as far as it is found by making one thing smaller at a time."""
    left = tries
    found: Case | None = case
    while found is not None:
        case = found
        found = None
        for smaller in _smaller(case):
            if left == 0:
                return case
            left -= 1
            if breaks(smaller):
                found = smaller
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Give every case that is a little smaller than one, the largest cuts first."""
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
            yield replace(case, prompts=_with(case.prompts, row, _without(prompt, place)))
    if case.seed > 0:
        yield replace(case, seed=ZERO)
        yield replace(case, seed=MASKED)
    if case.dtype is not torch.float32:
        yield replace(case, dtype=torch.float32)
    for token in sorted({token for line in (*case.prompts, *case.tokens) for token in line if token > 0}):
        prompts, tokens = _renamed(case.prompts, token), _renamed(case.tokens, token)
        yield replace(case, prompts=prompts, tokens=tokens)


def _renamed(rows: tuple[tuple[int, ...], ...], token: int) -> tuple[tuple[int, ...], ...]:
    """Write id 0 wherever a token stands."""
    return tuple(tuple(0 if given == token else given for given in row) for row in rows)


def _without(values: tuple, place: int) -> tuple:  # type: ignore[type-arg]
    return values[:place] + values[place + 1 :]


def _with(values: tuple, place: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:place], value, *values[place + 1 :])
