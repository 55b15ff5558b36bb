"""Requests with registered processors share a batch, and each row is as it is alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.batching import BatchedRequests, NewRequest, steps_of
from logitkit.errors import ConfigurationError, ProcessorError
from tests.batches import COLUMNS, same_bits
from tests.fake_cuda import fake_cuda
from tests.own import Counts, OwnTopA
from tests.pipeline.registered_requests import alone, logits_at, register_own, request
from tests.registry import EOS, vocabulary

CONFIGS: list[dict[str, Any] | None] = [
    {"own_top_a": 0.2},
    {"every_nth": {"n": 2, "token": 7}},
    None,
    {"own_top_a": 0.9, "every_nth": {"n": 2, "token": 7}, "regex": "[a-z]*", "frequency_penalty": 1.0},
    {"every_nth": {"n": 3, "token": 8}, "top_k": 5},
    {"own_top_a": 0.9},
    {"every_nth": {"n": 2, "token": 7}, "temperature": 0.5},
]
PROMPTS = [[3, 4], [5], [], [6, 7, 8], [9], [3], [4, 4]]


@pytest.fixture(autouse=True)
def registered() -> None:
    register_own()


def test_each_row_is_as_it_is_alone_while_rows_enter_move_and_leave() -> None:
    batch = BatchedRequests("cpu", [EOS], COLUMNS)
    here = list(range(5))
    batch.arrange([request(CONFIGS[i], PROMPTS[i]) for i in here])
    outputs: list[list[int]] = [[] for _ in CONFIGS]
    arrangements = {2: [4, 1, 0], 3: [1, 5, 0, 6, 4], 5: [6, 2, 3]}
    for step in range(7):
        if step in arrangements:
            before, here = here, arrangements[step]
            batch.arrange(
                [before.index(i) if i in before else request(CONFIGS[i], PROMPTS[i], outputs[i]) for i in here]
            )
        logits = logits_at(step, len(here))
        found = batch.process_logits(logits.clone())
        for place, i in enumerate(here):
            assert same_bits(found[place], alone(CONFIGS[i], PROMPTS[i], outputs[i], logits[place])), (step, i)
        tokens = [10 + (step * 7 + i) % 20 for i in here]
        for i, token in zip(here, tokens, strict=True):
            outputs[i].append(token)
        batch.advance(torch.tensor(tokens))


def test_rows_of_equal_configuration_share_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    original = OwnTopA.process_logits

    def spy(self: Any, state: Any, logits: Tensor, context: lk.Context) -> Any:
        calls.append(len(logits))
        return original(self, state, logits, context)

    monkeypatch.setattr(OwnTopA, "process_logits", spy)
    batch = BatchedRequests("cpu", [EOS], COLUMNS)
    batch.arrange([request({"own_top_a": a}) for a in (0.5, 0.2, 0.5, 0.5)])
    batch.process_logits(logits_at(0, 4))
    assert sorted(calls) == [1, 3]


@dataclass(frozen=True)
class Sees:
    """Notes the context that it is given."""

    note: list[Any]

    role = lk.Role.PENALTY

    def init_state(self, context: lk.Context) -> Any:
        self.note.append(("init", context))
        return Counts(context.lengths)

    def advance(self, state: Any, tokens: Tensor) -> Any:
        return Counts(state.tokens + lk.count_tokens(tokens))

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        assert torch.equal(state.tokens, context.lengths)
        self.note.append(("process", context))
        return state, logits


def test_the_context_is_the_true_one() -> None:
    note: list[Any] = []
    lk.register("sees", lambda: Sees(note), role=lk.Role.PENALTY)
    batch = BatchedRequests("cpu", [EOS], COLUMNS)
    one = request({"sees": {}}, [5, 6], [7], stream=3, limit=20)
    batch.arrange([None, one, request({"sees": {}}, [8], limit=9)])
    batch.advance(torch.tensor([[1, 1], [4, 5], [6, -1]]))
    batch.process_logits(logits_at(0, 3))
    seen = note[-1][1]
    assert seen.prompt.tolist() == [[5, 6], [8, -1]]
    assert seen.prompt_lengths.tolist() == [2, 1]
    assert seen.lengths.tolist() == [5, 2]
    assert seen.limits.tolist() == [20, 9]
    assert seen.streams.tolist() == [3, 0]
    assert (seen.vocabulary_size, seen.device.type) == (COLUMNS, "cpu")
    assert note[0][1].vocabulary_size == COLUMNS


def test_an_unknown_number_of_columns_raises() -> None:
    with pytest.raises(ConfigurationError, match="the number of columns of the logits is unknown"):
        BatchedRequests("cpu").arrange([request({"own_top_a": 0.5})])


def test_processors_of_logitkit_have_no_false_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        lk.TopK, "process_logits", lambda self, state, logits, context: (state, logits + context.lengths)
    )
    batch = BatchedRequests("cpu")
    batch.arrange([NewRequest(lk.TopK(5), [3])])
    with pytest.raises(ProcessorError, match="has vocabulary_size and device only"):
        batch.process_logits(logits_at(0, 1))


def test_a_kind_may_come_several_times_where_it_says_so() -> None:
    twice = {"chain": [{"own_top_a": 0.2}, {"own_top_a": 0.9}]}
    with pytest.raises(
        ConfigurationError, match="'own_top_a' is given twice, but a configuration may hold it only once"
    ):
        steps_of(lk.from_config(twice, vocabulary()))
    lk.register("again", OwnTopA, several=True)
    batch = BatchedRequests("cpu", [EOS], COLUMNS)
    batch.arrange([request({"chain": [{"again": 0.2}, {"again": 0.9}]}), request({"again": 0.9})])
    logits = logits_at(0, 2)
    found = batch.process_logits(logits.clone())
    assert same_bits(found[1], alone({"again": 0.9}, [], [], logits[1]))
    assert same_bits(found[0], alone({"chain": [{"again": 0.2}, {"again": 0.9}]}, [], [], logits[0]))


@dataclass(frozen=True)
class FromState:
    """Adds a number that is in the state, so that one of them may run the rows of all."""

    by: int

    role = lk.Role.BIAS
    parameters: ClassVar[Any] = {"by": {"type": "integer"}}
    examples = ({"by": 1}, {"by": 2})
    parameters_in_state = True

    def init_state(self, context: lk.Context) -> Any:
        return Counts(torch.full((context.batch_size,), self.by, device=context.device))

    def advance(self, state: Any, tokens: Tensor) -> Any:
        return state

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        return state, logits + state.tokens[:, None].to(logits.dtype)


def test_a_kind_with_its_parameters_in_the_state_has_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    lk.register("from_state", FromState)
    calls: list[int] = []
    original = FromState.process_logits

    def spy(self: Any, state: Any, logits: Tensor, context: lk.Context) -> Any:
        calls.append(len(logits))
        return original(self, state, logits, context)

    monkeypatch.setattr(FromState, "process_logits", spy)
    batch = BatchedRequests("cpu", [EOS], COLUMNS)
    batch.arrange([request({"from_state": by}) for by in (1, 2, 3)])
    logits = logits_at(0, 3)
    found = batch.process_logits(logits.clone())
    assert calls == [3]
    assert same_bits(found, logits + torch.tensor([[1.0], [2.0], [3.0]]))


@dataclass(frozen=True)
class NotesDevices(FromState):
    """Notes the devices of everything that it is passed."""

    note: Any = None

    def init_state(self, context: lk.Context) -> Any:
        self.note.add(("init_state", context.device.type, context.prompt.device.type))
        return super().init_state(context)

    def advance(self, state: Any, tokens: Tensor) -> Any:
        self.note.add(("advance", state.tokens.device.type, tokens.device.type))
        return state

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        assert context.lengths.device == logits.device
        self.note.add(("process_logits", state.tokens.device.type, logits.device.type))
        return super().process_logits(state, logits, context)


@pytest.mark.parametrize(("reads_host", "device"), [(True, "cpu"), (False, "cuda"), (None, "cuda")])
def test_a_kind_that_reads_the_host_runs_on_the_cpu(
    reads_host: bool | None, device: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All states begin on the CPU, where prompts and outputs are replayed."""
    note: set[Any] = set()
    # It leaves every row a token, so that no row is checked, for which fake tensors on the CPU lack values.
    declared: dict[str, Any] = {"role": lk.Role.BIAS, "may_empty_rows": False}
    lk.register("notes", lambda: NotesDevices(1, note), reads_host=reads_host, **declared)
    with fake_cuda() as cuda:
        batch = BatchedRequests(cuda, [EOS], COLUMNS)
        batch.arrange([request({"notes": {}}, [5], max_length=9), None, request({"notes": {}}, [], max_length=9)])
        for step in range(2):
            batch.advance(torch.full((3,), step, device=cuda))
            found = batch.process_logits(torch.zeros(3, COLUMNS, device=cuda))
            assert found.device.type == "cuda"
        batch.arrange([2, request({"notes": {}}, [6], max_length=9), 0])
        assert batch.process_logits(torch.zeros(3, COLUMNS, device=cuda)).device.type == "cuda"
    assert note == {("init_state", "cpu", "cpu"), ("advance", device, device), ("process_logits", device, device)}
    assert "failed" not in caplog.text
