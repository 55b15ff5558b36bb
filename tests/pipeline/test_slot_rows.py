"""Rows follow an engine's slots, with drafts and with tokens that only the device knows: each is as it is alone."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from logitkit.batching.slot_rows import CallRows, SlotRows
from tests.batches import COLUMNS, sound_logits
from tests.examples import examples
from tests.pipeline.following import Request, batch

SLOTS, LONGEST = 5, 64


class Engine:
    """Schedules requests at random. The slots know the tokens only from `history`."""

    def __init__(self, random: Any, drafts: int) -> None:
        self.random, self.drafts, self.number = random, drafts, 0
        self.rows = SlotRows(batch(), torch.device("cpu"), SLOTS, drafts)
        self.history = torch.full((SLOTS, LONGEST), -7, dtype=torch.int32)
        self.live: dict[int, Request] = {}
        # How many tokens each request begins with, and whether its prompt is still being read.
        self.begin: dict[int, int] = {}
        self.reading: set[int] = set()

    def write(self, slot: int) -> None:
        text = torch.tensor([*self.live[slot].prompt, *self.live[slot].output], dtype=torch.int32)
        self.history[slot, : len(text)] = text

    def schedule(self) -> None:
        """Requests leave without a word, and others take their slots."""
        for slot in range(SLOTS):
            if self.random.random() < 0.25:
                request = self.live[slot] = Request(self.number)
                self.number += 1
                request.output += [self.random.randrange(3, 60) for _ in range(self.random.randrange(4))]
                self.begin[slot] = len(request.prompt) + len(request.output)
                self.reading.add(slot)
                new = partial(request.new, list(request.output))
                if request.processor is None:
                    self.rows.remove(slot)
                else:
                    self.rows.replace(slot, self.begin[slot], new)  # type: ignore[arg-type]
                self.write(slot)
        self.rows.begin_step()

    def step(self, seed: int) -> None:
        present = [slot for slot in self.live if self.random.random() < 0.9]
        self.random.shuffle(present)
        plan: list[tuple[int, list[int]]] = []
        for slot in present:
            some = self.random.randint(0, self.drafts) if self.drafts and slot not in self.reading else 0
            plan.append((slot, [self.random.randrange(3, 60) for _ in range(some)]))
        starts = sorted({0, len(plan), *(n for n in range(len(plan)) if self.random.random() < 0.2)})
        for begin, end in pairwise(starts):
            self.process(plan[begin:end], seed)
        self.commit(plan)

    def process(self, plan: list[tuple[int, list[int]]], seed: int) -> None:
        """Process a chunk of a step, twice, and compare each row with what it is alone."""
        rows = []
        for slot, drafts in plan:
            text = [*self.live[slot].prompt, *self.live[slot].output]
            # A chunk of a prompt ends before its last token.
            last = 0 if slot in self.reading and self.random.random() < 0.5 else len(text) - 1
            if last == len(text) - 1:
                self.reading.discard(slot)
            rows += [(slot, n, last + n, token) for n, token in enumerate([text[last], *drafts])]
        columns = [torch.tensor(column, dtype=torch.int32) for column in zip(*rows, strict=True)]
        call = CallRows([slot for slot, _ in plan], *columns)
        logits = sound_logits(seed, (len(rows), COLUMNS), torch.float32)
        found = self.rows.process_logits(logits.clone(), call, self.history)
        assert torch.equal(found, self.rows.process_logits(logits.clone(), call, self.history))
        self.compare(rows, logits, found)

    def compare(self, rows: list[tuple[int, int, int, int]], logits: Tensor, found: Tensor) -> None:
        drafts: list[int] = []
        for row, (slot, drafted, position, token) in enumerate(rows):
            drafts = [*drafts, token] if drafted else []
            request = self.live[slot]
            if request.processor is None or position - drafted + 1 < self.begin[slot]:
                wanted = logits[row]  # nothing is asked for, or it is in the middle of a prompt
            else:
                wanted = request.alone([*request.output, *drafts], logits[row])
            assert torch.equal(found[row], wanted), (slot, drafted)

    def commit(self, plan: list[tuple[int, list[int]]]) -> None:
        """Accept some of the drafts, and sample one token more."""
        for slot, drafts in plan:
            if slot not in self.reading and len(self.live[slot].output) < LONGEST // 2:
                accepted = drafts[: self.random.randint(0, len(drafts))]
                self.live[slot].output += [*accepted, self.random.randrange(3, 60)]
                self.write(slot)


@pytest.mark.parametrize("compiling", [False, True], ids=["host", "tensors"])
@settings(max_examples=examples(40), deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 3), st.integers(0, 2**31))
def test_rows_are_as_alone(compiling: bool, random: Any, drafts: int, seed: int) -> None:
    engine = Engine(random, drafts)
    as_compiled: Any = mock.patch.object(torch.compiler, "is_compiling", return_value=True)
    for step in range(8):
        engine.schedule()
        with as_compiled if compiling else nullcontext():
            engine.step(seed + step)


def test_slots_without_processors_are_not_touched() -> None:
    rows = SlotRows(batch(), torch.device("cpu"), SLOTS, 0)
    rows.remove(2)
    rows.begin_step()
    logits, column = torch.ones(1, COLUMNS), torch.tensor([2])
    call = CallRows([2], column, torch.tensor([0]), torch.tensor([4]), torch.tensor([5]))
    assert rows.process_logits(logits, call, torch.zeros(SLOTS, LONGEST, dtype=torch.int32)) is logits


def test_a_request_that_leaves_before_it_begins_never_enters() -> None:
    rows = SlotRows(held := batch(), torch.device("cpu"), SLOTS, 0)

    def never() -> Any:
        raise AssertionError("it has left")

    rows.replace(2, 3, never)
    rows.remove(2)
    rows.begin_step()
    assert len(held) == 0
