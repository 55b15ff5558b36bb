"""Processors as users write them: functions and classes, with a role or without, that ban, shift or break logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import torch
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from tests.adapters.demo import vocabulary

__all__ = ["CHANGES", "KINDS", "Own", "own"]

NEVER = float("-inf")
V = vocabulary()
(EOS,) = V.eos_ids


@cache
def ids_of(characters: str) -> Tensor:
    """Return the tokens that contain any of some characters."""
    return torch.tensor([i for i, text in enumerate(V.tokens) if text and any(c in text for c in characters.encode())])


def _with(ids: Callable[[], Tensor], value: float) -> Callable[[Tensor], Tensor]:
    return lambda logits: logits.index_fill(1, ids(), value)


def _half(logits: Tensor) -> Tensor:
    return torch.where(torch.arange(logits.shape[1]) % 2 == 0, NEVER, logits)


# All take logits, [B, V]; the names say what is done to which tokens.
CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "bans digits": _with(lambda: ids_of("0123456789"), NEVER),
    "bans letters": _with(lambda: ids_of("abcdefghijklmnopqrstuvwxyz"), NEVER),
    "bans quotes and braces": _with(lambda: ids_of('"{}[]'), NEVER),
    "bans EOS": _with(lambda: torch.tensor([EOS]), NEVER),
    "bans everything": lambda logits: torch.full_like(logits, NEVER),
    "bans everything but EOS": lambda logits: torch.where(torch.arange(logits.shape[1]) == EOS, logits, NEVER),
    "bans every second token": _half,
    "bans low logits": lambda logits: logits.masked_fill(logits < 1, NEVER),
    "keeps the best": lambda logits: logits.masked_fill(logits < logits.amax(1, keepdim=True), NEVER),
    "returns NaN for digits": _with(lambda: ids_of("0123456789"), torch.nan),
    "returns NaN": lambda logits: torch.full_like(logits, torch.nan),
    "returns +inf for a letter": _with(lambda: torch.tensor([V.tokens.index(b"a")]), torch.inf),
    "allows a letter again": _with(lambda: torch.tensor([V.tokens.index(b"q")]), 30.0),
    "allows EOS again": _with(lambda: torch.tensor([EOS]), 30.0),
    "halves": lambda logits: logits / 2,
}


@dataclass(frozen=True)
class Changing:
    """Changes the logits after a number of new tokens."""

    what: str
    after: int

    def init_state(self, context: lk.Context) -> tuple[()]:
        return ()

    def advance(self, state: tuple[()], tokens: Tensor) -> tuple[()]:
        return state

    def process_logits(self, state: tuple[()], logits: Tensor, context: lk.Context) -> tuple[tuple[()], Tensor]:
        late = context.lengths - context.prompt_lengths >= self.after
        return state, torch.where(late[:, None], CHANGES[self.what](logits.clone()), logits)


@dataclass(frozen=True)
class WithVocabulary(Changing):
    """Knows the tokens, and so EOS."""

    vocabulary: ClassVar[lk.Vocabulary] = V


@dataclass(frozen=True)
class AsConstraint(Changing):
    """Says that it bans tokens."""

    role: ClassVar[lk.Role] = lk.Role.CONSTRAINT


@dataclass(frozen=True)
class AsTruncation(Changing):
    """Says that it keeps likely tokens."""

    role: ClassVar[lk.Role] = lk.Role.TRUNCATION


def _function(what: str, after: int) -> lk.Stateless:
    changing = Changing(what, after)
    return lk.Stateless(lambda logits, context: changing.process_logits((), logits, context)[1])


KINDS: dict[str, Callable[[str, int], Any]] = {
    "function": _function,
    "class": Changing,
    "class with a vocabulary": WithVocabulary,
    "constraint": AsConstraint,
    "truncation": AsTruncation,
}


@dataclass(frozen=True)
class Own:
    """A processor of a user, by names that print well."""

    kind: str
    what: str
    after: int

    def make(self) -> Any:
        """Return the processor."""
        return KINDS[self.kind](self.what, self.after)


own = st.builds(Own, st.sampled_from(sorted(KINDS)), st.sampled_from(sorted(CHANGES)), st.integers(0, 3))
