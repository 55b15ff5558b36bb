"""The results of a processor's methods are checked wherever the core calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import LogitkitError, ProcessorError
from logitkit.protocol import advance_checked, init_checked, process_checked
from logitkit.sessions.seam import state_at_seam
from logitkit.tracking import Request, RequestTracker, Tracker
from tests.core.misbehaving import BROKEN, Count, Counter

COLUMNS = 3
ONE = torch.tensor([1])
VOCABULARY = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])


def context() -> lk.Context:
    return lk.Context.of([[0]], COLUMNS)


def directly(processor: lk.Processor[Any]) -> None:
    state = init_checked(processor, context())
    state = advance_checked(processor, state, ONE)
    process_checked(processor, state, torch.zeros(1, COLUMNS), context())


def in_a_chain(processor: lk.Processor[Any]) -> None:
    both = lk.chain(lk.Temperature(1.0), processor)
    state = both.advance(both.init_state(context()), ONE)
    both.process_logits(state, torch.zeros(1, COLUMNS), context())


def in_a_chain_that_is_checked_itself(processor: lk.Processor[Any]) -> None:
    directly(lk.chain(processor))


def by_token_histories(processor: lk.Processor[Any]) -> None:
    resolver = Tracker(processor)
    for ids in ([[0]], [[0, 1]]):
        state, now = resolver.resolve(torch.tensor(ids), vocabulary_size=COLUMNS)
    process_checked(processor, state, torch.zeros(1, COLUMNS), now)


def by_replay(processor: lk.Processor[Any]) -> None:
    resolver = Tracker(processor, prompt=torch.tensor([[0]]))
    state, now = resolver.resolve(torch.tensor([[0, 1, 1]]), vocabulary_size=COLUMNS)
    process_checked(processor, state, torch.zeros(1, COLUMNS), now)


def by_a_growing_row(processor: lk.Processor[Any]) -> None:
    tracker = Tracker(processor, prompt=torch.tensor([[0]]))
    for ids in ([0], [0, 1]):
        state, now = tracker.resolve(torch.tensor([ids]), vocabulary_size=COLUMNS)
    process_checked(processor, state, torch.zeros(1, COLUMNS), now)


def by_requests(processor: lk.Processor[Any]) -> None:
    states = RequestTracker(processor)
    for output in ([], [1]):
        state, now = states.resolve([Request("a", [0], output)], COLUMNS, "cpu")
    process_checked(processor, state, torch.zeros(1, COLUMNS), now)


def at_a_seam(processor: lk.Processor[Any]) -> None:
    penalty = lk.chain(lk.FrequencyPenalty(1.0), _Penalty(processor))
    state = state_at_seam(penalty, [[0, 1]], [1], [2], context())
    process_checked(penalty, state, torch.zeros(1, COLUMNS), context())


def by_looking_for_forced_tokens(processor: lk.Processor[Any]) -> None:
    both = lk.chain(lk.AllowTokens([1]), processor)
    lk.forced_run(both, init_checked(both, context()), context=context(), limit=3)


@dataclass(frozen=True)
class _Penalty:
    """A processor as a penalty, which goes on at a seam instead of restarting."""

    inner: Any
    role = lk.RepetitionPenalty.role

    def init_state(self, context: lk.Context) -> Any:
        return self.inner.init_state(context)

    def advance(self, state: Any, tokens: Tensor) -> Any:
        return self.inner.advance(state, tokens)

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        return self.inner.process_logits(state, logits, context)


CALLERS: list[Callable[[lk.Processor[Any]], None]] = [
    *(directly, in_a_chain, in_a_chain_that_is_checked_itself, by_token_histories, by_replay, by_a_growing_row),
    *(by_requests, at_a_seam, by_looking_for_forced_tokens),
]


@pytest.mark.parametrize("wrong", BROKEN)
@pytest.mark.parametrize("caller", CALLERS, ids=lambda c: c.__name__)
def test_what_breaks_the_protocol_is_named_wherever_it_is_called(
    caller: Callable[[lk.Processor[Any]], None], wrong: str
) -> None:
    processor, message = BROKEN[wrong]
    message = message.replace("Counter.", "(Counter|_Penalty).").replace("InPlace.", "(InPlace|_Penalty).")
    with pytest.raises(ProcessorError, match=message) as raised:
        caller(processor)
    assert isinstance(raised.value, TypeError)
    assert isinstance(raised.value, LogitkitError)
    assert len(str(raised.value)) < 400


def test_every_caller_runs_what_is_right() -> None:
    for caller in CALLERS:
        caller(Counter())
        caller(Counter(lambda s, x: (Count(s.tokens), x)))  # a new tuple around the same tensors


class Nested(NamedTuple):
    inner: tuple[Count, tuple[()]]
    seen: Tensor


def test_states_may_be_nested_and_grow() -> None:
    grown = Counter(begin=lambda s: s, after=lambda s: s)
    before = Nested((Count(torch.zeros(2)), ()), torch.zeros(2, 4, 1))
    after = Nested((Count(torch.ones(2)), ()), torch.zeros(2, 8, 1))
    state = init_checked(_Constant(before, after), lk.Context.of([[], []], COLUMNS))
    assert advance_checked(_Constant(before, after), state, torch.tensor([1, 1])) is after
    shrunk = Nested((Count(torch.ones(1)), ()), torch.zeros(2, 8, 1))
    with pytest.raises(ProcessorError, match=r"\[2\] to torch.float32 of shape \[1\], at state.inner.0.tokens"):
        advance_checked(_Constant(before, shrunk), state, torch.tensor([1, 1]))
    assert grown.init_state(lk.Context.of([[]], COLUMNS)).tokens.tolist() == [0]


@dataclass(frozen=True)
class _Constant:
    first: Any
    later: Any

    def init_state(self, context: lk.Context) -> Any:
        return self.first

    def advance(self, state: Any, tokens: Tensor) -> Any:
        return self.later

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        return state, logits


@dataclass(frozen=True)
class Faulty:
    """Counts tokens, adds the count to the logits, and does something wrong while a list has something in it."""

    faults: list[str] = field(default_factory=list)

    def init_state(self, context: lk.Context) -> Count:
        rows = context.batch_size + ("init_state" in self.faults)
        return Count(torch.zeros(rows, dtype=torch.int64))

    def advance(self, state: Count, tokens: Tensor) -> Count:
        if "advance" in self.faults:
            return Count(state.tokens.float())
        return Count(state.tokens + (tokens.reshape(len(state.tokens), -1) >= 0).sum(1))

    def process_logits(self, state: Count, logits: Tensor, context: lk.Context) -> tuple[Count, Tensor]:
        logits = logits + state.tokens[:, None]
        return (Count(state.tokens + 1) if "process_logits" in self.faults else state), logits


@pytest.mark.parametrize("fault", ["advance", "process_logits"])
def test_after_an_error_histories_go_on_as_if_there_had_been_none(fault: str) -> None:
    processor = Faulty()
    resolver = Tracker(processor)

    def call(*ids: int) -> float:
        state, now = resolver.resolve(torch.tensor([ids]), vocabulary_size=COLUMNS)
        return process_checked(processor, state, torch.zeros(1, COLUMNS), now)[0, 0].item()

    assert [call(0), call(0, 1)] == [0, 1]
    for ids in ((0, 1, 1), (0, 1, 2)):
        processor.faults.append(fault)
        with pytest.raises(ProcessorError, match=f"Faulty.{fault} changed its state"):
            call(*ids)
        processor.faults.clear()
    assert [call(0, 1, 1), call(0, 1, 0), call(0, 1, 0, 0), call(0, 1)] == [2, 2, 3, 1]


@pytest.fixture
def inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def test_states_made_in_inference_mode_are_checked_by_identity(inference: None) -> None:
    """There torch does not count what is written to a tensor."""
    processor = Counter()
    state = init_checked(processor, context())
    with torch.inference_mode(False):
        state = advance_checked(processor, state, ONE)
        process_checked(processor, state, torch.zeros(1, COLUMNS), context())
    broken, message = BROKEN["changes its state with the logits"]
    with pytest.raises(ProcessorError, match=message):
        process_checked(broken, state, torch.zeros(1, COLUMNS), context())
