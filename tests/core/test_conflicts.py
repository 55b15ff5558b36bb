"""Constraints of a chain that contradict each other: the row ends, and it can be asked which did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit import Role
from logitkit.errors import ConfigurationError

A, B, EOS = 0, 1, 2
VOCABULARY = lk.Vocabulary([b"a", b"b", None], eos_ids=[EOS])
NEVER = -torch.inf


@dataclass(frozen=True)
class Without:
    """Bans a token, and knows no vocabulary."""

    token: int
    role: ClassVar[Role] = Role.CONSTRAINT

    def init_state(self, context: lk.Context) -> tuple[()]:
        return ()

    def advance(self, state: tuple[()], tokens: Tensor) -> tuple[()]:
        return state

    def process_logits(self, state: tuple[()], logits: Tensor, context: lk.Context) -> tuple[tuple[()], Tensor]:
        logits[:, self.token] = NEVER
        return state, logits


@dataclass(frozen=True)
class Stopped(Without):
    """A stop that has fired in every row."""

    def fired(self, state: tuple[()]) -> Tensor:
        return torch.ones(1, dtype=torch.bool)


def context() -> lk.Context:
    return lk.Context.of([[]], vocabulary_size=3)


def run(processor: lk.Chain, *tokens: int) -> tuple[Any, list[float]]:
    state = processor.advance(processor.init_state(context()), torch.tensor([[-1, *tokens]]))
    return state, processor.process_logits(state, torch.full((1, 3), 5.0), context())[1][0].tolist()


def test_a_row_that_is_left_nothing_ends_and_says_so() -> None:
    both = lk.chain(lk.Regex("ab", VOCABULARY), Without(B))
    state, logits = run(both)
    assert logits == [5, NEVER, NEVER]
    assert both.conflicts(state).tolist() == [False]
    state, logits = run(both, A)
    assert logits == [NEVER, NEVER, 0]
    assert both.conflicts(state).tolist() == [True]
    state, logits = run(both, A, EOS)
    assert both.conflicts(state).tolist() == [True]


def test_the_order_of_constraints_does_not_matter() -> None:
    both = lk.chain(Without(B), lk.Regex("ab", VOCABULARY))
    state, logits = run(both, A)
    assert logits == [NEVER, NEVER, 0]
    assert both.conflicts(state).tolist() == [True]


def test_a_row_that_may_end_has_no_conflict() -> None:
    both = lk.chain(lk.Regex("ab?", VOCABULARY), Without(B))
    for tokens in ([A], [A, EOS]):
        state, logits = run(both, *tokens)
        assert logits == [NEVER, NEVER, 5]
        assert both.conflicts(state).tolist() == [False]


def test_a_draft_that_left_the_language_is_a_conflict() -> None:
    regex = lk.chain(lk.Regex("ab", VOCABULARY))
    state, logits = run(regex, B)
    assert logits == [NEVER, NEVER, 0]
    assert regex.conflicts(state).tolist() == [True]


def test_a_stop_is_not_a_conflict() -> None:
    both = lk.chain(lk.Regex("ab", VOCABULARY), Stopped(B))
    state, logits = run(both, A)
    assert logits == [NEVER, NEVER, 0]
    assert both.conflicts(state).tolist() == [False]


def test_automata_with_another_constraint_between_them_are_intersected() -> None:
    apart = lk.chain(lk.Regex("ab|bb", VOCABULARY), Without(A), lk.Regex("b.|.a", VOCABULARY))
    assert [type(p).__name__ for p in apart.processors] == ["Intersection", "Without"]
    joined = lk.chain(lk.Regex("ab|bb", VOCABULARY), lk.RepetitionPenalty(1.0), lk.Regex("b.|.a", VOCABULARY))
    assert [type(p).__name__ for p in joined.processors] == ["Regex", "RepetitionPenalty", "Regex"]


def test_automata_on_both_sides_of_forced_tokens_stay_there() -> None:
    """A forced token wins over the masks before it, and not over those after it."""
    sides = lk.chain(lk.Regex("ab", VOCABULARY), lk.ForcedTokens([B]), lk.Regex("a+b?", VOCABULARY))
    assert [type(p).__name__ for p in sides.processors] == ["Regex", "ForcedTokens", "Regex"]
    state, logits = run(sides)
    assert logits == [NEVER, NEVER, 0]
    assert sides.conflicts(state).tolist() == [True]
    _, logits = run(lk.chain(lk.Regex("ab", VOCABULARY), lk.Regex("a+b?", VOCABULARY), lk.ForcedTokens([B])))
    assert logits == [NEVER, 0, NEVER]


def test_without_constraints_nothing_is_in_conflict() -> None:
    assert lk.chain().conflicts(()).tolist() == []
    penalty = lk.chain(lk.RepetitionPenalty(2.0))
    assert penalty.conflicts(penalty.init_state(context())).tolist() == [False]


def test_a_chain_without_a_vocabulary_can_be_given_eos_ids_and_the_width_of_logits() -> None:
    both = lk.chain(lk.AllowTokens([A]), Without(A), eos_ids=[EOS])
    for links in (both, lk.chain(both, lk.Temperature(2.0))):
        state, logits = run(links)
        assert logits == [NEVER, NEVER, 0]
        assert links.conflicts(state, columns=3).tolist() == [True]
    with pytest.raises(ConfigurationError, match="no constraint of the chain has a vocabulary; give the columns"):
        both.conflicts(both.init_state(context()))
    with pytest.raises(ConfigurationError, match="eos_ids has -1"):
        lk.chain(eos_ids=[-1])


def test_columns_after_the_vocabulary_count_too() -> None:
    both = lk.chain(lk.StopStrings(["ab"], VOCABULARY), lk.BanTokens([4]))
    state = both.init_state(context())
    assert both.conflicts(state, columns=6).tolist() == [False]


def test_what_a_vocabulary_says_ends_a_row_rather_than_what_is_held_back() -> None:
    held = lk.chain(lk.MinNewTokens(1, [B]), lk.Regex("a", VOCABULARY), Without(EOS))
    _, logits = run(held, A)
    assert logits == [NEVER, NEVER, 0]
