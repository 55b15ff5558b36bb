"""In a batch that requests share, a processor that breaks the protocol ends its own rows, and others go on as they were."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.batching import BatchedRequests, NewRequest, steps_of
from logitkit.errors import ConfigurationError, ProcessorError
from tests.batches import COLUMNS, same_bits
from tests.registry import EOS, ids, vocabulary

PENALTY = lk.FrequencyPenalty(1.0)
DIGITS = lk.Regex("[0-9]+", vocabulary())


def copied(state: Any) -> Any:
    return type(state)(*(copied(part) if isinstance(part, tuple) else part.clone() for part in state))


FAULTS = {
    "init_state": lambda whole: lambda self, context: None,
    "advance": lambda whole: lambda self, state, tokens: copied(whole(self, state, tokens))._replace(penalty=None),
    "process_logits": lambda whole: lambda self, state, logits, context: (copied(state), logits),
}


def entered(eos_ids: tuple[int, ...] = (EOS,)) -> BatchedRequests:
    batch = BatchedRequests("cpu", eos_ids)
    batch.arrange([NewRequest(PENALTY, [3]), NewRequest(DIGITS, [3]), None, NewRequest(lk.chain(PENALTY, DIGITS), [3])])
    return batch


def breaks(patch: pytest.MonkeyPatch, method: str) -> None:
    patch.setattr(lk.FrequencyPenalty, method, FAULTS[method](getattr(lk.FrequencyPenalty, method)))


TOKENS = [torch.tensor([5, *ids(b"1"), 7, *ids(b"2")]), torch.tensor([6, *ids(b"3"), 8, *ids(b"4")])]


def step(batch: BatchedRequests, tokens: Tensor) -> Tensor:
    batch.advance(tokens)
    return batch.process_logits(torch.linspace(-2, 2, 4 * COLUMNS).reshape(4, COLUMNS))


@pytest.mark.parametrize("method", FAULTS)
def test_its_rows_end_and_others_go_on(
    method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = [step(batch, tokens) for batch in [entered()] for tokens in TOKENS]
    breaks(monkeypatch, method)
    with caplog.at_level(logging.ERROR, "logitkit.batching"):
        batch = entered()
        found = [step(batch, tokens) for tokens in TOKENS]
    assert "breaks the protocol" in caplog.text
    only_eos = torch.arange(COLUMNS) == EOS
    for mine, right in zip(found, wanted, strict=True):
        assert (mine[[0, 3]] > -torch.inf).equal(only_eos.repeat(2, 1))
        assert same_bits(mine[[1, 2]], right[[1, 2]])
    # Rows move, and those that have ended leave; what comes later is whole again.
    batch.arrange([1, 3, 2])
    moved = batch.process_logits(torch.zeros(3, COLUMNS))
    assert (moved[1] > -torch.inf).equal(only_eos)
    monkeypatch.undo()
    batch.arrange([0, NewRequest(PENALTY, [3], [5])])
    later = batch.process_logits(torch.zeros(2, COLUMNS))
    assert later[1, 5] == -1
    assert later[1].count_nonzero() == 1


@pytest.mark.parametrize("method", FAULTS)
def test_without_an_eos_it_is_raised(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, method)
    with pytest.raises(ProcessorError, match=f"FrequencyPenalty.{method}"):
        step(entered(()), TOKENS[0])


@dataclass(frozen=True)
class Louder(lk.Regex):
    """A language that does more than mask: rows of other languages, with which it would share a call, must not get that."""

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        state, logits = super().process_logits(state, logits, context)
        return state, logits * 2


def test_a_language_that_does_something_else_shares_no_batch() -> None:
    with pytest.raises(ConfigurationError, match="a Louder cannot be expressed as a configuration"):
        steps_of(lk.chain(lk.RepetitionPenalty(1.1), Louder("[0-9]+", vocabulary())))
