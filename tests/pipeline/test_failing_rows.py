"""A registered processor that fails ends its own row only."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.batching import BatchedRequests, NewRequest
from tests.batches import COLUMNS, same_bits
from tests.own import EveryNth
from tests.pipeline.registered_requests import logits_at, register_own, request
from tests.registry import EOS, vocabulary


@pytest.fixture(autouse=True)
def registered() -> None:
    register_own()


def test_a_failure_ends_its_own_row_only(caplog: pytest.LogCaptureFixture) -> None:
    """The three share a call; one of them fails, and goes on to fail."""
    config = {"every_nth": {"n": 9, "token": 7, "fails_at": 2}}
    batch = BatchedRequests("cpu", [EOS], COLUMNS)
    batch.arrange(
        [request(config, [3], [4, 5]), request(config, [3], [4]), request({"top_k": 5}), request(config, [3])]
    )
    logits = logits_at(0, 4)
    with caplog.at_level(logging.ERROR, "logitkit.batching"):
        found = batch.process_logits(logits.clone())
    assert "EveryNth failed; a request that asks for it is ended" in caplog.text
    assert "it fails here" in caplog.text
    assert (found[0] > -torch.inf).nonzero().flatten().tolist() == [EOS]
    assert same_bits(found[[1, 3]], logits[[1, 3]])
    assert (found[2] > -torch.inf).sum() == 5
    # Once the second row has as many tokens, it ends too, and the last goes on.
    batch.advance(torch.tensor([EOS, 6, 6, 6]))
    later = batch.process_logits(logits.clone())
    assert (later[1] > -torch.inf).nonzero().flatten().tolist() == [EOS]
    assert same_bits(later[[0, 3]], logits[[0, 3]])


class FailsToAdvance(EveryNth):
    def advance(self, state: Any, tokens: Tensor) -> Any:
        if (tokens == self.fails_at).any():
            raise RuntimeError("it fails here")
        return super().advance(state, tokens)


class FailsToBegin(EveryNth):
    def init_state(self, context: lk.Context) -> Any:
        if (context.prompt == self.fails_at).any():
            raise RuntimeError("it fails here")
        return super().init_state(context)


@pytest.mark.parametrize("factory", [FailsToAdvance, FailsToBegin])
def test_a_failure_in_other_methods_ends_its_own_row_only(factory: Any, caplog: pytest.LogCaptureFixture) -> None:
    lk.register("fails", factory)
    made = lk.from_config({"fails": {"n": 9, "token": 7, "fails_at": 5}}, vocabulary())
    batch = BatchedRequests("cpu", [EOS], COLUMNS)
    batch.arrange([NewRequest(made, [5]), NewRequest(made, [3]), None])
    with caplog.at_level(logging.ERROR, "logitkit.batching"):
        batch.advance(torch.tensor([5, 6, 5]))
    assert "it fails here" in caplog.text
    for step in range(2):
        logits = logits_at(step, 3)
        found = batch.process_logits(logits.clone())
        assert (found[0] > -torch.inf).nonzero().flatten().tolist() == [EOS]
        assert same_bits(found[1:], logits[1:])
        batch.advance(torch.tensor([6, 6, 6]))
    # A row that comes later joins those that are well.
    batch.arrange([1, NewRequest(made, [4]), 0])
    found = batch.process_logits(logits.clone())
    assert same_bits(found[:2], logits[:2])
    assert (found[2] > -torch.inf).nonzero().flatten().tolist() == [EOS]


@dataclass(frozen=True)
class Ragged(EveryNth):
    """Has another structure for each prompt, so that its rows cannot be joined."""

    def init_state(self, context: lk.Context) -> Any:
        return (super().init_state(context).tokens.repeat(1, 1).T,) * (1 + context.prompt.shape[1])

    def advance(self, state: Any, tokens: Tensor) -> Any:
        return state

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        return state, logits


def test_rows_that_cannot_be_joined_end_and_those_that_come_later_do_not(caplog: pytest.LogCaptureFixture) -> None:
    lk.register("ragged", Ragged)
    config: dict[str, Any] = {"ragged": {"n": 9, "token": 7}}
    batch = BatchedRequests("cpu", [EOS], COLUMNS)
    with caplog.at_level(logging.ERROR, "logitkit.batching"):
        batch.arrange([request(config, [5]), request(config, [3, 4]), request(config, [])])
        found = batch.process_logits(logits_at(0, 3))
    assert "Ragged failed" in caplog.text
    assert (found > -torch.inf).sum(1).tolist() == [1, 1, 1]
    batch.arrange([0, request(config, [5])])
    found = batch.process_logits(logits_at(0, 2))
    assert (found > -torch.inf).sum(1).tolist() == [1, COLUMNS]


def test_a_row_without_a_token_ends() -> None:
    lk.register("bans_all", lambda: lk.Stateless(lambda logits, context: logits * torch.nan), role=lk.Role.TRUNCATION)
    batch = BatchedRequests("cpu", [EOS], COLUMNS)
    batch.arrange([request({"bans_all": {}}), request({"top_k": 72})])
    logits = logits_at(0, 2)
    found = batch.process_logits(logits.clone())
    assert (found[0] > -torch.inf).nonzero().flatten().tolist() == [EOS]
    assert same_bits(found[1], logits[1])
