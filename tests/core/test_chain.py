"""Several processors as one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError, ProcessorError
from tests.core.misbehaving import Count, Counter, Truncation

VOCABULARY = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])


def context() -> lk.Context:
    return lk.Context.of([[0], [1]], vocabulary_size=3)


def plus(n: float) -> lk.Stateless:
    return lk.Stateless(lambda logits, _: logits + n)


def times(n: float) -> lk.Stateless:
    return lk.Stateless(lambda logits, _: logits * n)


def process(processor: lk.Processor[Any]) -> Tensor:
    state = processor.init_state(context())
    return processor.process_logits(state, torch.ones(2, 3), context())[1]


def test_processors_run_from_left_to_right() -> None:
    assert process(lk.chain(plus(1), times(3))).unique().tolist() == [6]
    assert process(lk.chain(times(3), plus(1))).unique().tolist() == [4]


def test_the_state_is_the_tuple_of_states() -> None:
    both = lk.chain(Counter(), plus(0), lk.Regex("a*", VOCABULARY))
    state = both.advance(both.init_state(context()), torch.tensor([[0, -1], [1, 1]]))
    assert state[0] == Count(state[0].tokens)
    assert state[0].tokens.tolist() == [1, 2]
    assert state[1] == ()
    regex = both.processors[2]
    assert isinstance(regex, lk.Regex)
    assert regex.is_dead(state[2]).tolist() == [False, True]


def test_chains_inside_are_flattened() -> None:
    a, b, c, d = plus(1), plus(2), plus(3), plus(4)
    nested = lk.chain(a, lk.chain(b, lk.chain(c)), lk.chain(), d)
    assert nested == lk.chain(a, b, c, d)
    assert nested.processors == (a, b, c, d)
    assert nested.init_state(context()) == ((), (), (), ())


def test_a_chain_may_be_traced_before_its_first_step() -> None:
    torch.compiler.reset()
    vocabulary = lk.Vocabulary([b"0", b"1", None], eos_ids=[2])
    both = lk.chain(lk.ForcedTokens([0]), lk.Regex("[01]{2}", vocabulary), lk.MinNewTokens(1, [2]), lk.BanTokens([1]))
    context = lk.Context.of([[]], vocabulary_size=3)

    def step(state: Any, tokens: Tensor, logits: Tensor) -> tuple[Any, Tensor]:
        return both.process_logits(both.advance(state, tokens), logits, context)

    traced = torch.compile(step, fullgraph=True, backend="aot_eager")
    _, logits = traced(both.init_state(context), torch.tensor([0]), torch.zeros(1, 3))
    assert logits.tolist() == [[0, -torch.inf, -torch.inf]]


def test_an_empty_chain_changes_nothing() -> None:
    assert process(lk.chain()).equal(torch.ones(2, 3))


def test_a_constraint_after_a_truncation_is_refused() -> None:
    regex = lk.Regex("a", VOCABULARY)
    for late in (
        lambda: lk.chain(Truncation(), regex),
        lambda: lk.chain(Truncation(), lk.RepetitionPenalty(2.0), regex),
        lambda: lk.chain(lk.chain(Truncation()), lk.chain(regex)),
    ):
        with pytest.raises(ConfigurationError, match=r"constraint Regex after the truncation Truncation.*Regex first"):
            late()
    assert len(lk.chain(regex, Truncation(), lk.RepetitionPenalty(2.0), Truncation()).processors) == 4


def test_a_constraint_after_a_temperature_of_0_is_refused() -> None:
    """It keeps one token, which the constraint may forbid: the row would be left nothing."""
    regex = lk.Regex("a", VOCABULARY)
    with pytest.raises(
        ConfigurationError, match=r"constraint Regex after Temperature\(temperature=0.0\).*put Regex first"
    ):
        lk.chain(lk.Temperature(0), regex)
    for allowed in (lk.chain(regex, lk.Temperature(0)), lk.chain(lk.Temperature(0.5), regex)):
        assert len(allowed.processors) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda logits, _: logits, "argument 1 of chain is of type function"),
        (lk.RepetitionPenalty, "argument 1 of chain is the class RepetitionPenalty"),
        (None, "argument 1 of chain is of type NoneType"),
    ],
)
def test_a_value_that_is_not_a_processor_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        lk.chain(plus(1), given)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            lambda s, x: (x, s),
            r"Counter.process_logits returned Count.*\(state, logits\), not \(logits, state\)",
        ),
        (lambda s, x: x, r"Counter.process_logits returned Tensor; return the pair"),
        (lambda s, x: None, r"Counter.process_logits returned NoneType; return the pair"),
        (lambda s, x: (s, None), r"Counter.process_logits returned NoneType as its second value"),
        (lambda s, x: (s, x[:, :2]), r"Counter.*logits of shape \[2, 2\].*given \[2, 3\]"),
        (lambda s, x: (s, x[0]), r"Counter.*logits of shape \[3\].*given \[2, 3\]"),
        (lambda s, x: (s, x.half()), r"Counter.*torch.float16.*torch.float32; return the same shape and dtype"),
        (
            lambda s, x: ((s.tokens,), x),
            r"Counter.process_logits changed its state from Count of 1 to tuple of 1",
        ),
        (lambda s, x: (None, x), r"Counter.process_logits changed its state from Count of 1 to NoneType"),
        (lambda s, x: (Count(s.tokens.int()), x), r"changed its state from torch.int64.*to torch.int32"),
        (lambda s, x: (Count(s.tokens[:1]), x), r"changed its state from .*\[2\] to .*\[1\]"),
        (lambda s, x: (Count(s.tokens[:, None]), x), r"changed its state from .*\[2\] to .*\[2, 1\]"),
    ],
)
def test_a_processor_that_returns_something_wrong_is_named(result: Any, message: str) -> None:
    with pytest.raises(ProcessorError, match=message):
        process(lk.chain(plus(1), Counter(result)))


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (lambda s: s.tokens, r"Counter.advance changed its state from Count of 1 to Tensor"),
        (lambda s: Count(s.tokens.float()), r"Counter.advance changed its state from torch.int64"),
        (lambda s: Count(s.tokens[:1]), r"Counter.advance changed its state.*rows of a state are fixed"),
    ],
)
def test_a_processor_that_advances_to_something_wrong_is_named(after: Any, message: str) -> None:
    wrong = lk.chain(plus(1), Counter(after=after))
    state = wrong.init_state(context())
    with pytest.raises(ProcessorError, match=message):
        wrong.advance(state, torch.tensor([0, 0]))


def test_a_stateless_function_that_returns_something_wrong_is_reported() -> None:
    with pytest.raises(ProcessorError, match=r"Stateless.*shape \[2, 1\]"):
        process(lk.chain(lk.Stateless(lambda logits, _: logits[:, :1])))
    with pytest.raises(ProcessorError, match=r"Stateless.*NoneType"):
        process(lk.chain(lk.Stateless(lambda logits, _: None)))  # type: ignore[arg-type, return-value]
