"""The protocol, and plain functions as processors."""

from __future__ import annotations

import torch

import logitkit as lk
from logitkit.processor import Role, name_of, role_of
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
    assert sorted(Role) == [Role.BIAS, Role.PENALTY, Role.CONSTRAINT, Role.TEMPERATURE, Role.TRUNCATION]
    assert role_of(lk.RepetitionPenalty(1.1)) is Role.PENALTY
    assert role_of(Truncation()) is Role.TRUNCATION
    assert role_of(Counter()) is None
    assert name_of(Counter()) == "Counter"
