"""Prompts, tokens, rows, logits and states that `Steps` refuses. A refused call changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch

import logitkit as lk
from logitkit.errors import BatchMismatch, BrokenLogits, ConfigurationError, VocabularyError
from logitkit_adapters.loop import Steps
from tests.adapters.demo import vocabulary


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Steps(cast(Any, lk.TopK), [[1]]), ConfigurationError, "the class TopK"),
        (lambda: Steps(lk.TopK(1), [1, 2]), ConfigurationError, "prompt 0 is 1; give a list of token ids"),
        (lambda: Steps(lk.TopK(1), "text"), ConfigurationError, "prompts are a str"),
        (lambda: Steps(lk.TopK(1), [["a"]]).process(np.ones((1, 3))), ConfigurationError, "prompt 0 has 'a'"),
        (lambda: Steps(lk.TopK(1), [torch.tensor([2.7])]), ConfigurationError, "prompt 0 has 2.7"),
        (lambda: Steps(lk.TopK(1), [torch.tensor([[1, 2]])]), ConfigurationError, "prompt 0 is tensor"),
        (lambda: Steps(lk.TopK(1), [[]], columns=3).commit(np.float32(1.7)), ConfigurationError, "give integers"),
        (lambda: Steps(lk.TopK(1), [[]], columns=3).commit(torch.tensor(1.0)), ConfigurationError, "give integers"),
        (lambda: Steps(lk.TopK(1), [[]], columns=3).commit(True), ConfigurationError, "tokens are True"),
        (lambda: Steps([lk.TopK(1)], [[1], [2]]), ConfigurationError, "1 processors for 2 prompts"),
        (lambda: Steps([lk.TopK(1)], [[1]]).add([[2]]), ConfigurationError, "processors are missing"),
        (lambda: Steps(lk.TopK(1), [[1]]).add([[2]], [lk.TopK(2)]), ConfigurationError, "all rows share one processor"),
        (lambda: Steps(lk.TopK(1), [[1]]).commit([1]), ConfigurationError, "before the first logits"),
        (lambda: Steps(lk.TopK(1), [[1]]).select([0]), ConfigurationError, "before the first logits"),
        (lambda: Steps(lk.TopK(1), [[1]], columns=3).select([1]), ConfigurationError, "rows have 1"),
        (lambda: Steps(lk.TopK(1), [[1]], columns=3).select("a"), ConfigurationError, "rows are a str"),
        (lambda: Steps(lk.TopK(1), [[1]], columns=3).commit([3]), ConfigurationError, "tokens have 3"),
        (lambda: Steps(lk.TopK(1), [[1]], columns=3).commit([-2]), ConfigurationError, "tokens have -2"),
        (lambda: Steps(lk.TopK(1), [[1]], columns=3).commit([1, 1]), BatchMismatch, "2"),
        (lambda: Steps(lk.TopK(1), [[1]]).process(np.ones((2, 3))), BatchMismatch, "2 rows, but the loop has 1"),
        (lambda: Steps(lk.TopK(1), [[1]]).process(np.ones((1, 3), int)), ConfigurationError, "floating point"),
        (lambda: Steps(lk.TopK(1), [[1]], columns=4).process(np.ones((1, 3))), ConfigurationError, "3 columns, but 4"),
        (lambda: Steps(lk.TopK(1), [[1]]).process(np.full((1, 3), np.nan)), BrokenLogits, "NaN"),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_refused_call_changes_nothing() -> None:
    steps = Steps(lk.Regex("b+", vocabulary()), [[5]])
    first = steps.process(np.zeros((1, vocabulary().size), np.float32)).copy()
    with pytest.raises(ConfigurationError):
        steps.commit([vocabulary().size])
    with pytest.raises(BatchMismatch):
        steps.process(np.zeros((3, vocabulary().size), np.float32))
    assert (steps.process(np.zeros((1, vocabulary().size), np.float32)) == first).all()


@pytest.mark.parametrize("prompts", [[[-1]], [["x"]], [[0.5]], np.array([[0, -1]])])
def test_a_refused_prompt_adds_nothing(prompts: Any) -> None:
    steps = Steps(lk.Regex("b+", vocabulary()), [[5]])
    with pytest.raises(ConfigurationError, match="prompt 0 has"):
        steps.add(prompts)
    assert len(steps) == 1
    assert steps.process(np.zeros((1, vocabulary().size), np.float32)).shape == (1, vocabulary().size)


def test_a_tuple_of_tokens_and_an_array_without_tokens_are_taken() -> None:
    steps = Steps(lk.TopK(1), [np.array([]), (1, 2)], columns=4)
    steps.commit((3, 1))
    assert steps.context is not None
    assert steps.context.lengths.tolist() == [1, 3]


def test_logits_with_a_wrong_number_of_columns_do_not_begin_the_rows() -> None:
    steps = Steps([lk.Regex("b+", vocabulary()), None], [[5], [5]])
    with pytest.raises(VocabularyError):
        steps.process(np.zeros((2, 3), np.float32))
    found = steps.process(np.zeros((2, vocabulary().size + 1), np.float32))
    assert found[0].max() == 0
    assert found[0, -1] == -np.inf
    assert (found[1] == 0).all()


def test_a_state_of_other_rows_is_refused() -> None:
    v = vocabulary()
    budget = lk.ThinkingBudget(9, "</think>", v)
    steps, other = Steps(budget, [[5], [5]]), Steps(budget, [[5]], columns=v.size)
    with pytest.raises(ConfigurationError, match="no state before the first logits; call process first"):
        steps.state = None
    steps.process(np.zeros((2, v.size), np.float32))
    other.process(np.zeros((1, v.size), np.float32))
    before = steps.state
    for wrong in (None, (before,), before[0], other.state, before._replace(spent=before.spent.float())):
        with pytest.raises(ConfigurationError, match="of another form than the state of these rows"):
            steps.state = wrong
    assert steps.state is before
