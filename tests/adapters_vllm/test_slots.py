"""Rows follow the slots of vLLM's V2 model runner: requests come, finish, are preempted and come back, and drafts are refused."""

from __future__ import annotations

import random
from contextlib import nullcontext
from functools import cache
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest
import torch

from logitkit_adapters.admission.configurations import Configurations
from logitkit_adapters.vllm.v1 import V1Rows
from logitkit_adapters.vllm.v2 import V2Slots
from tests.adapters_vllm.slots import SLOTS, Runner
from tests.adapters_vllm.test_batch_update import Request, update
from tests.batches import COLUMNS, logits_of
from tests.registry import vocabulary


@cache
def configurations() -> Configurations:
    return Configurations(vocabulary())


def alone(request: Request, output: list[int], logits: torch.Tensor) -> torch.Tensor:
    rows = V1Rows(configurations(), torch.device("cpu"), 256)
    rows.update(update(1, added=[(0, request.params, request.prompt, output)]))
    return rows.process(logits[None].clone())[0]


class Trial:
    """A model runner that schedules at random, and what it asks the slots for."""

    def __init__(self, seed: int, drafts: int, staged: bool) -> None:
        self.random, self.drafts = random.Random(seed), drafts
        self.runner = Runner(staged=staged)
        self.slots = V2Slots(configurations(), self.runner.states, drafts)
        self.waiting = [Request(number) for number in range(40)]
        self.live: dict[int, Request] = {}
        self.places: dict[int, int] = {}
        self.checked = 0

    def schedule(self) -> None:
        for slot, request in [*self.live.items()]:
            if self.random.random() < 0.12 or len(request.output) > 40:
                del self.live[slot]  # without telling the slots
                if len(request.output) < 8:
                    self.waiting.insert(0, request)
        free = [slot for slot in range(SLOTS) if slot not in self.live]
        self.random.shuffle(free)
        for slot in free:
            if self.waiting and self.random.random() < 0.5:
                request = self.live[slot] = self.waiting.pop(0)
                self.runner.enter(slot, request.prompt, request.output)
                asks = self.slots.add(slot, request.params)
                assert asks == (request.config is not None)
                # How much of its prompt has been read.
                self.places[slot] = self.random.choice([1, len(request.prompt) + len(request.output)])
        self.runner.write()
        self.slots.begin_step()

    def rows(self) -> list[tuple[int, int, int, int]]:
        """Rows of the scheduled requests: `(slot, place among its rows, position, token)`."""
        found = []
        order = [slot for slot in self.live if self.random.random() < 0.9]
        self.random.shuffle(order)
        for slot in order:
            said = [*self.live[slot].prompt, *self.live[slot].output]
            if self.places[slot] < len(said):
                found.append((slot, 0, self.places[slot] - 1, said[self.places[slot] - 1]))
                self.places[slot] = len(said)
                continue
            drafts = [self.random.randrange(3, 60) for _ in range(self.random.randint(0, self.drafts))]
            if len(said) == self.runner.prefill_len.np[slot]:
                drafts = [-1 for _ in drafts]  # nothing is drafted before the first token
            found += [(slot, place, len(said) - 1 + place, token) for place, token in enumerate([said[-1], *drafts])]
        return found

    def process(self, rows: list[tuple[int, int, int, int]], seed: int) -> torch.Tensor:
        """Process in chunks that end between requests, each twice."""
        logits = logits_of(seed, (len(rows), COLUMNS), torch.float32).nan_to_num()
        starts = [0, *(n for n, row in enumerate(rows) if n and row[1] == 0 and self.random.random() < 0.3), len(rows)]
        found = []
        for begin, end in pairwise(starts):
            context = self.runner.context(rows[begin:end])
            once, twice = (self.slots.process(logits[begin:end].clone(), context) for _ in range(2))
            assert torch.equal(once, twice)
            found.append(once)
        self.compare(rows, logits, torch.cat(found))
        return logits

    def compare(self, rows: list[tuple[int, int, int, int]], logits: torch.Tensor, found: torch.Tensor) -> None:
        drafts: list[int] = []
        for number, (slot, place, position, token) in enumerate(rows):
            request = self.live[slot]
            drafts = [] if place == 0 else [*drafts, token]
            length = len(request.prompt) + len(request.output)
            if position - place + 1 < length:
                assert torch.equal(found[number], logits[number])  # amid its prompt
            elif -1 not in drafts:
                wanted = alone(request, [*request.output, *drafts], logits[number])
                assert torch.equal(found[number], wanted), (slot, place)
                self.checked += 1

    def commit(self, rows: list[tuple[int, int, int, int]]) -> None:
        """Accept some of the drafts, and sample one token more."""
        of: dict[int, list[int]] = {}
        for slot, place, position, token in rows:
            if position - place + 1 >= len(self.live[slot].prompt) + len(self.live[slot].output):
                of.setdefault(slot, []).extend([token] if place else [])
        for slot, drafts in of.items():
            known = drafts[: drafts.index(-1)] if -1 in drafts else drafts
            new = [*known[: self.random.randint(0, len(known))], self.random.randrange(3, 60)]
            request = self.live[slot]
            begin = len(request.prompt) + len(request.output)
            self.runner.tokens.gpu[slot, begin : begin + len(new)] = torch.tensor(new, dtype=torch.int32)
            request.output += new
            self.places[slot] = begin + len(new)


@pytest.mark.parametrize("compiling", [False, True], ids=["host", "tensors"])
@pytest.mark.parametrize("drafts", [0, 3])
@pytest.mark.parametrize("seed", range(6))
def test_rows_follow_the_slots(seed: int, drafts: int, compiling: bool) -> None:
    trial = Trial(seed, drafts, staged=seed % 2 == 0)
    as_compiled: Any = mock.patch.object(torch.compiler, "is_compiling", return_value=True)
    for step in range(25):
        trial.schedule()
        rows = trial.rows()
        if rows:
            with as_compiled if compiling else nullcontext():
                trial.process(rows, seed * 100 + step)
            trial.commit(rows)
    assert trial.checked > 60
