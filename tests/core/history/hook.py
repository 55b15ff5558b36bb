"""A minimal adapter: shows ids, gets states."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import logitkit as lk
from logitkit.tracking import Tracker
from tests.core.ledger import Ledger, LedgerState, rows_of

Rows = list[list[int]]
Sequences = list[tuple[list[int], list[int]]]


class Hook:
    """A minimal adapter: shows ids, gets states."""

    def __init__(self, **arguments: Any) -> None:
        self.ledger = arguments.pop("processor", None) or Ledger()
        self.resolver: Tracker[LedgerState] = Tracker(self.ledger, **arguments)

    def resolve(self, rows: Rows | Tensor, columns: int = 50) -> tuple[LedgerState, lk.Context]:
        ids = rows if isinstance(rows, Tensor) else torch.tensor(rows, dtype=torch.int64)
        return self.resolver.resolve(ids, vocabulary_size=columns)

    def __call__(self, *rows: list[int]) -> Sequences:
        return rows_of(self.resolve(list(rows))[0])

    def calls(self) -> list[int | str]:
        """The calls of the processor since the last time this was read."""
        calls = list(self.ledger.calls)
        self.ledger.calls.clear()
        return calls


def begun(*rows: list[int]) -> Sequences:
    return [(row, []) for row in rows]
