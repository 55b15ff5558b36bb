"""The protocol, and plain functions as processors."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.protocol import name_of, role_of, same_processor
from tests.core.misbehaving import Counter, Truncation


def test_processors_are_known_by_their_methods() -> None:
    assert isinstance(Counter(), lk.Processor)
    assert isinstance(lk.RepetitionPenalty(1.1), lk.Processor)
    assert isinstance(lk.chain(), lk.Processor)
    assert not isinstance(lambda logits, context: logits, lk.Processor)


def test_a_stateless_function_sees_logits_and_context() -> None:
    seen = []

    def add_length(logits: torch.Tensor, context: lk.Context) -> torch.Tensor:
        seen.append(context)
        return logits + context.lengths[:, None]

    processor = lk.Stateless(add_length)
    context = lk.Context.of([[1, 1], [1]], vocabulary_size=2)
    state = processor.init_state(context)
    assert state == ()
    assert processor.advance(state, torch.tensor([1, 1])) == ()
    state, logits = processor.process_logits(state, torch.zeros(2, 2), context)
    assert state == ()
    assert logits.tolist() == [[2, 2], [1, 1]]
    assert seen == [context]


def test_roles_are_in_canonical_order() -> None:
    assert sorted(lk.Role) == [
        lk.Role.BIAS,
        lk.Role.PENALTY,
        lk.Role.CONSTRAINT,
        lk.Role.TEMPERATURE,
        lk.Role.TRUNCATION,
        lk.Role.WATERMARK,
    ]
    assert role_of(lk.RepetitionPenalty(1.1)) is lk.Role.PENALTY
    assert role_of(Truncation()) is lk.Role.TRUNCATION
    assert role_of(Counter()) is None
    assert name_of(Counter()) == "Counter"


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (5, r"fn is of type int; give a function fn\(logits, context\)"),
        (None, r"fn is of type NoneType; give a function"),
        (
            lambda a, b, c: a,
            r"fn cannot be called with two arguments \(missing a required argument: 'c'\); give a function",
        ),
        (lambda logits: logits, r"fn cannot be called with two arguments \(too many positional arguments\)"),
        (lambda logits, *, context: logits, r"fn cannot be called with two arguments"),
        (lk.TopK(5), r"fn is a TopK, which needs no Stateless around it"),
        (Counter(), r"fn is a Counter, which needs no Stateless around it"),
    ],
)
def test_a_function_that_cannot_be_called_with_logits_and_context_is_refused(fn: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        lk.Stateless(fn)


def test_functions_may_take_more_if_they_need_not() -> None:
    context = lk.Context.of([[]], vocabulary_size=2)
    functions: list[Any] = [
        lambda logits, context, scale=2: logits * scale,
        lambda *given: given[0] * 2,
        partial(_scaled, 2),
        torch.add,
    ]
    for fn in functions:
        assert isinstance(lk.Stateless(fn), lk.Processor)
    assert lk.Stateless(partial(_scaled, 2)).process_logits((), torch.ones(1, 2), context)[1].tolist() == [[2, 2]]


def _scaled(scale: float, logits: torch.Tensor, context: lk.Context) -> torch.Tensor:
    return logits * scale


@dataclass(frozen=True)
class Weighted(Counter):
    weights: Any = None
    note: str = field(default="", compare=False)


def test_processors_of_tensors_are_compared_by_their_values() -> None:
    def of(*weights: float, note: str = "") -> Weighted:
        return Weighted(weights={"a": [torch.tensor(weights)], "b": np.array(weights)}, note=note)

    assert same_processor(of(1, 2), of(1, 2, note="another"))
    assert same_processor(lk.chain(lk.TopK(5), of(1, 2)), lk.chain(lk.TopK(5), of(1, 2)))
    for other in (of(1, 3), of(1), of(1, 2, 3), Weighted(weights=[1, 2]), Counter(), lk.chain(of(1, 2))):
        assert not same_processor(of(1, 2), other)
    assert not same_processor(lk.chain(lk.TopK(5), of(1, 2)), lk.chain(lk.TopK(4), of(1, 2)))
    assert not same_processor(Weighted(weights=torch.ones(2)), Weighted(weights=torch.ones(2).half()))
