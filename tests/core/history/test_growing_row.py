"""`GrowingRow` finds what `HistoryResolver` finds, whatever is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import logitkit as lk
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.history import HistoryResolver
from logitkit.history.growing_row import GrowingRow

PROMPT = [4, 4, 1]
SIZE = 6
PENALTY = lk.RepetitionPenalty(2.0, window=4)


def row() -> GrowingRow[Any]:
    return GrowingRow(PENALTY, HistoryResolver(PENALTY, prompt=torch.tensor([PROMPT])))


def shown(output: list[int]) -> NDArray[np.int32]:
    return np.array(PROMPT + output, np.int32)


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, SIZE - 1), max_size=3)), max_size=9))
def test_states_and_contexts_are_those_of_a_resolver(moves: list[tuple[int, list[int]]]) -> None:
    one, output = row(), list[int]()
    # Each call takes back some tokens and adds others: it grows, jumps, repeats, rewinds or branches.
    for back, new in moves:
        output = output[: max(0, len(output) - back)] + new
        state, context = one.resolve(shown(output), vocabulary_size=SIZE)
        other = HistoryResolver(PENALTY, prompt=torch.tensor([PROMPT]))
        expected, expected_context = other.resolve(torch.tensor([PROMPT + output]), vocabulary_size=SIZE)
        logits = torch.arange(SIZE, dtype=torch.float32)[None] - 2
        assert torch.equal(
            PENALTY.process_logits(state, logits.clone(), context)[1],
            PENALTY.process_logits(expected, logits.clone(), expected_context)[1],
        )
        assert context.lengths.equal(expected_context.lengths)
        assert context.prompt.equal(expected_context.prompt)


def test_what_is_shown_may_be_overwritten_afterwards() -> None:
    one, ids = row(), shown([1, 2, 3])
    for length in (3, 4, 5, 6):
        state, _ = one.resolve(ids[:length], vocabulary_size=SIZE)
    ids[-1] = 5
    again, _ = one.resolve(ids, vocabulary_size=SIZE)
    assert sorted(state.history.tokens[0].tolist()) == [1, 1, 2, 3]
    assert sorted(again.history.tokens[0].tolist()) == [1, 1, 2, 5]


def test_logits_of_another_size_have_states_of_their_own() -> None:
    one = row()
    one.resolve(shown([]), vocabulary_size=SIZE)
    assert one.resolve(shown([1]), vocabulary_size=SIZE + 1)[1].vocabulary_size == SIZE + 1


@pytest.mark.parametrize("wrong", [[4, 5], [4, 4, 2, 1], [4, 4, 1, -1]])
def test_ids_that_cannot_be_are_refused(wrong: list[int]) -> None:
    one = row()
    one.resolve(shown([]), vocabulary_size=SIZE)
    with pytest.raises(ConfigurationError):
        one.resolve(np.array(wrong), vocabulary_size=SIZE)


@dataclass(frozen=True)
class Fussy(lk.RepetitionPenalty):
    def advance(self, state: Any, tokens: torch.Tensor) -> Any:
        if 5 in tokens.tolist():
            raise VocabularyError("five")
        return super().advance(state, tokens)


def test_nothing_changes_where_a_processor_fails() -> None:
    fussy = Fussy(2.0)
    one = GrowingRow(fussy, HistoryResolver(fussy, prompt=torch.tensor([PROMPT])))
    one.resolve(shown([2]), vocabulary_size=SIZE)
    with pytest.raises(VocabularyError):
        one.resolve(shown([2, 5]), vocabulary_size=SIZE)
    state, context = one.resolve(shown([2, 3]), vocabulary_size=SIZE)
    assert sorted(state.history.tokens[0, :5].tolist()) == [1, 2, 3, 4, 4]
    assert context.lengths.tolist() == [5]
