"""Rows follow every change that vLLM's V1 model runner makes to its batch."""

from __future__ import annotations

import random
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ProcessorError
from tests.batches import COLUMNS, logits_of
from tests.registry import vocabulary

CONFIGURATIONS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"regex": "[0-9a-z]*", "repetition_penalty": 1.3},
    {"presence_penalty": 2.0, "stop_strings": ["cat"]},
    {"min_new_tokens": 3, "top_k": 9},
    {"xtc": {"probability": 0.7, "threshold": 0.01}},
    {"dry": 0.9, "temperature": 0.5},
)


class Request:
    def __init__(self, number: int) -> None:
        self.config = CONFIGURATIONS[number % len(CONFIGURATIONS)]
        self.params = SimpleNamespace(
            extra_args=None if self.config is None else {"logitkit": self.config}, seed=number
        )
        self.prompt = [3 + number % 40, 7]
        self.output: list[int] = []
        self.processor = None if self.config is None else lk.from_config(self.config, vocabulary())

    def alone(self, logits: torch.Tensor) -> torch.Tensor:
        from logitkit_adapters.vllm.v1 import V1Rows

        rows = V1Rows(_configurations(), torch.device("cpu"), 256)
        rows.update(update(1, added=[(0, self.params, self.prompt, self.output)]))
        return rows.process(logits[None].clone())[0]


@cache
def _configurations() -> Any:
    from logitkit_adapters.admission.configurations import Configurations

    return Configurations(vocabulary())


def update(size: int, removed: Any = (), added: Any = (), moved: Any = ()) -> Any:
    from vllm.v1.sample.logits_processor import BatchUpdate

    return BatchUpdate(size, list(removed), list(added), list(moved))


@pytest.fixture
def rows() -> Any:
    from logitkit_adapters.vllm.v1 import V1Rows

    return V1Rows(_configurations(), torch.device("cpu"), 256)


@pytest.mark.parametrize("seed", range(20))
def test_rows_follow_a_batch_of_vllm(rows: Any, seed: int) -> None:
    """vLLM's own code says what changes: requests come, finish, are preempted and come back."""
    from vllm.v1.sample.logits_processor import BatchUpdateBuilder, MoveDirectionality

    rng = random.Random(seed)
    places: list[Request | None] = []
    waiting = [Request(number) for number in range(40)]
    builder = BatchUpdateBuilder()
    for step in range(60):
        for place, request in enumerate(places):
            if request is not None and rng.random() < 0.15:
                builder.removed_append(place)
                places[place] = None
                if len(request.output) < 8:  # preempted, and not finished
                    waiting.insert(0, request)
        while waiting and rng.random() < 0.6 and sum(p is not None for p in places) < 9:
            request = waiting.pop(0)
            place = builder.pop_removed()
            if place is None:
                place = len(places)
                places.append(None)
            builder.added.append((place, request.params, request.prompt, request.output))
            places[place] = request
        last = len(places) - 1
        while builder.removed:  # like `condense`, which keeps slots after the end in the list of removed ones
            while last >= 0 and places[last] is None:
                last -= 1
            target = builder.peek_removed()
            if target is None or target >= last:
                break
            builder.pop_removed()
            builder.moved.append((last, target, MoveDirectionality.UNIDIRECTIONAL))
            places[target], places[last] = places[last], None
        while places and places[-1] is None:
            places.pop()
        if len(places) > 1 and rng.random() < 0.4:
            a, b = rng.sample(range(len(places)), 2)
            builder.moved.append((a, b, MoveDirectionality.SWAP))
            places[a], places[b] = places[b], places[a]
        changed = builder.get_and_reset(len(places))
        if changed is not None:
            rows.update(changed)
        logits = logits_of(seed * 100 + step, (len(places), COLUMNS), torch.float32).nan_to_num()
        found = rows.process(logits.clone())
        for place, request in enumerate(places):
            assert request is not None
            assert torch.equal(found[place], request.alone(logits[place]))
            if rng.random() < 0.7:  # else its prompt is still being read
                request.output.append(rng.randrange(3, 60))
        if rng.random() < 0.1 and places and places[0] is not None:
            del places[0].output[len(places[0].output) // 2 :]  # vLLM takes back what it could not load


def test_a_batch_without_configurations_is_not_touched(rows: Any) -> None:
    plain = Request(0)
    rows.update(update(2, added=[(0, plain.params, [1], []), (1, plain.params, None, [5])]))
    logits = torch.ones(2, COLUMNS)
    assert rows.process(logits) is logits
    assert len(rows.batch) == 0


def test_a_token_that_is_still_sampled_is_read_when_it_is_known(rows: Any) -> None:
    request = Request(1)
    request.output[:] = [5, -1]
    rows.update(update(1, added=[(0, request.params, request.prompt, request.output)]))
    with pytest.raises(ProcessorError, match="turn asynchronous scheduling off"):
        rows.process(torch.zeros(1, COLUMNS))
    request.output[-1] = 9
    logits = logits_of(1, (1, COLUMNS), torch.float32).nan_to_num()
    assert torch.equal(rows.process(logits.clone())[0], request.alone(logits[0]))


def test_what_was_not_checked_ends_at_once(rows: Any) -> None:
    bad = SimpleNamespace(extra_args={"logitkit": {"regex": "("}}, seed=None)
    rows.update(update(2, added=[(0, bad, [3], []), (1, Request(0).params, [3], [])]))
    found = rows.process(torch.zeros(2, COLUMNS))
    assert found[0].isfinite().nonzero().flatten().tolist() == list(vocabulary().eos_ids)
    assert bool((found[1] == 0).all())


def test_prompts_that_are_not_tokens(rows: Any) -> None:
    params = Request(1).params
    rows.update(update(2, added=[(0, params, None, []), (1, params, [5, 10**6, -7], [])]))
    assert rows.process(torch.zeros(2, COLUMNS)).shape == (2, COLUMNS)


def engine_config(**scheduler: Any) -> Any:
    model = SimpleNamespace(logits_processors=None)
    return SimpleNamespace(scheduler_config=SimpleNamespace(async_scheduling=False, **scheduler), model_config=model)
