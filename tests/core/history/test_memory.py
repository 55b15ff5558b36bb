"""The memory of a resolver is limited."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.tracking import Tracker
from tests.core.history.hook import Hook, begun


@dataclass(frozen=True)
class Watched:
    """A processor whose living states can be counted."""

    alive: weakref.WeakSet[Tensor]

    def state(self, rows: int) -> tuple[Tensor]:
        made = torch.zeros(rows)
        self.alive.add(made)
        return (made,)

    def init_state(self, context: lk.Context) -> tuple[Tensor]:
        return self.state(context.batch_size)

    def advance(self, state: tuple[Tensor], tokens: Tensor) -> tuple[Tensor]:
        return self.state(len(tokens))

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> tuple[Any, Tensor]:
        return state, logits


class TestMemory:
    def test_of_one_long_generation_is_a_few_states(self) -> None:
        alive: weakref.WeakSet[Tensor] = weakref.WeakSet()
        watched: Tracker[Any] = Tracker(Watched(alive))
        ids = torch.randint(0, 9, (2, 3000), generator=torch.Generator().manual_seed(1))
        for length in range(1, 3000):
            watched.resolve(ids[:, :length], vocabulary_size=9)
        gc.collect()
        assert len(alive) <= 25

    @pytest.mark.parametrize("rows", [1, 4, 40])
    def test_of_hundreds_of_generations_is_bounded(self, rows: int) -> None:
        alive: weakref.WeakSet[Tensor] = weakref.WeakSet()
        watched: Tracker[Any] = Tracker(Watched(alive), capacity=16)
        draws = np.random.default_rng(1)
        for number in range(400):
            ids = torch.from_numpy(np.concatenate((np.full((rows, 1), number), draws.integers(0, 3, (rows, 9))), 1))
            for length in (4, 5, 6, 6, 5, 6, 7):
                watched.resolve(ids[:, :length], vocabulary_size=9)
            watched.resolve(ids[:, torch.tensor([0, 1, 2, 3, 4, 7])], vocabulary_size=9)
        gc.collect()
        lineages = watched._histories.groups
        limit = max(16, 2 * rows)
        assert sum(one.rows.count for one in lineages) <= limit
        # A first state and a newest one each, and the last states of four.
        assert len(alive) <= 2 * len(lineages) + 4 * 24

    def test_of_drafts_is_bounded(self) -> None:
        alive: weakref.WeakSet[Tensor] = weakref.WeakSet()
        watched: Tracker[Any] = Tracker(Watched(alive), capacity=16)
        history = [1]
        for step in range(300):
            for n in range(12):
                watched.resolve(torch.tensor([history + [2] * n]), vocabulary_size=9)
            history.append(3 + step % 2)
            watched.resolve(torch.tensor([history]), vocabulary_size=9)
        gc.collect()
        assert len(watched._histories.groups) <= 16
        assert len(alive) <= 1 + 12 + 4 * 24

    def test_a_forgotten_history_is_a_new_prompt(self) -> None:
        hook = Hook(capacity=2)
        for history in ([1], [1, 1], [2], [3]):
            hook(history)
        assert hook([1, 1, 1]) == begun([1, 1, 1])
