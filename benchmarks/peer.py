"""The interface of every library that is measured: compile a pattern, mask rows of float32 logits, advance."""

from __future__ import annotations

import abc
import importlib.metadata
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from logitkit.protocol.state import concatenate, leaves, map_tensors, select
from logitkit.vocabulary import Vocabulary


class Refused(Exception):
    """The peer does not take the pattern."""


class NotTaken(Exception):
    """The peer does not go on with a token."""


class Rows(Protocol):
    """Some rows under one compiled pattern."""

    def mask(self, logits: Tensor) -> None:
        """Set what is illegal to -inf: [B, V] float32, in place."""

    def advance(self, tokens: Tensor) -> None:
        """Read one token a row, [B] int64; -1 puts a row back to the beginning, for the next text."""


class Peer(abc.ABC):
    """One library, ready for one vocabulary.

    Args:
        vocabulary: The tokens.
    """

    name: ClassVar[str]
    distribution: ClassVar[str]

    @abc.abstractmethod
    def __init__(self, vocabulary: Vocabulary) -> None: ...

    @abc.abstractmethod
    def compile(self, pattern: str) -> Any:
        """Compile, with no cache of compiled patterns; raise `Refused` where the pattern is not taken."""

    @abc.abstractmethod
    def start(self, compiled: Any, rows: int) -> Rows:
        """Begin rows."""

    @classmethod
    def version(cls) -> str:
        return importlib.metadata.version(cls.distribution)


def begun_again(state: Any, beginning: Any, ended: Tensor) -> Any:
    """Return a state of logitkit in which the rows that ended, [B] bool, are at the beginning again."""
    now, then = leaves(state), leaves(beginning)
    if any(a.shape != b.shape for a, b in zip(now, then, strict=True)):
        # A field has grown, such as what rows remember.
        rows = torch.arange(len(ended))
        return select(concatenate([state, beginning]), torch.where(ended, rows + len(ended), rows))
    begun = iter(then)
    return map_tensors(state, lambda now: torch.where(ended.view(-1, *[1] * (now.dim() - 1)), next(begun), now))
