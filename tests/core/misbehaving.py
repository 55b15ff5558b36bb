"""Processors of which each breaks one rule of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

import logitkit as lk
from logitkit import Role


class Count(NamedTuple):
    tokens: Tensor


@dataclass(frozen=True)
class Counter:
    """Counts tokens, and misbehaves in the given ways.

    Args:
        result: Returns the result of `process_logits`, given the state and the logits.
        after: Returns the result of `advance`, given the next state.
        begin: Returns the result of `init_state`, given the first state.
    """

    result: Callable[[Any, Tensor], Any] = lambda state, logits: (state, logits)
    after: Callable[[Any], Any] = lambda state: state
    begin: Callable[[Any], Any] = lambda state: state

    def init_state(self, context: lk.Context) -> Any:
        return self.begin(Count(torch.zeros(context.batch_size, dtype=torch.int64)))

    def advance(self, state: Any, tokens: Tensor) -> Any:
        real = (tokens >= 0).reshape(len(state.tokens), -1).sum(1)
        return self.after(Count(state.tokens + real))

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        return self.result(state, logits)


@dataclass(frozen=True)
class Truncation(Counter):
    """Stands for top-k and the like."""

    role: ClassVar[Role] = Role.TRUNCATION


@dataclass(frozen=True)
class InPlace(Counter):
    """Counts in the state that it is given."""

    def advance(self, state: Any, tokens: Tensor) -> Any:
        state.tokens.add_(1)
        return state


# By what is wrong: a processor, and what its error says.
BROKEN: dict[str, tuple[Counter, str]] = {
    "begins with None": (
        Counter(begin=lambda s: None),
        r"Counter.init_state returned NoneType; return a NamedTuple of tensors",
    ),
    "begins with a dict": (Counter(begin=lambda s: {"tokens": s.tokens}), r"Counter.init_state returned dict"),
    "begins with a list": (Counter(begin=lambda s: [s.tokens]), r"Counter.init_state returned list"),
    "begins with a bare tensor": (Counter(begin=lambda s: s.tokens), r"Counter.init_state returned Tensor"),
    "begins with a number": (Counter(begin=lambda s: Count(0)), r"Counter.init_state returned int at state.tokens"),  # type: ignore[arg-type]
    "begins with 7 rows": (
        Counter(begin=lambda s: (s, s.tokens.new_zeros(7))),
        r"returned torch.int64 of shape \[7\] at state.1 for a batch of 1 rows.*context.batch_size",
    ),
    "begins without rows": (
        Counter(begin=lambda s: Count(s.tokens.sum())),
        r"returned torch.int64 of shape \[\] at state.tokens for a batch of 1 rows",
    ),
    "advances to None": (
        Counter(after=lambda s: None),
        r"Counter.advance changed its state from Count of 1 to NoneType",
    ),
    "advances to another type": (Counter(after=lambda s: (s.tokens,)), r"from Count of 1 to tuple of 1, at state;"),
    "advances to another dtype": (
        Counter(after=lambda s: Count(s.tokens.float())),
        r"from torch.int64 of shape \[1\] to torch.float32 of shape \[1\], at state.tokens; .*are fixed",
    ),
    "advances to another rank": (
        Counter(after=lambda s: Count(s.tokens[:, None])),
        r"\[1\] to .*\[1, 1\], at state.tokens",
    ),
    "advances to 7 rows": (Counter(after=lambda s: Count(s.tokens.repeat(7))), r"\[1\] to .*\[7\], at state.tokens"),
    "advances in place": (InPlace(), r"InPlace.advance wrote to the state that it was given; return a new state"),
    "changes its state with the logits": (
        Counter(lambda s, x: (Count(s.tokens + 1), x)),
        r"Counter.process_logits changed its state to another tensor, at state.tokens; .*Changes belong in advance",
    ),
    "copies its state with the logits": (
        Counter(lambda s, x: (Count(s.tokens.clone()), x)),
        r"changed its state to another tensor, at state.tokens",
    ),
    "views its state with the logits": (
        Counter(lambda s, x: (Count(s.tokens[:]), x)),
        r"to another tensor, at state.tokens",
    ),
    "returns another type with the logits": (
        Counter(lambda s, x: ((s.tokens,), x)),
        r"from Count of 1 to tuple of 1, at state",
    ),
    "forgets its state": (Counter(lambda s, x: (None, x)), r"from Count of 1 to NoneType, at state"),
    "writes to its state with the logits": (
        Counter(lambda s, x: (Count(s.tokens.add_(1)), x)),
        r"Counter.process_logits wrote to its state; .*Changes belong in advance",
    ),
}
