"""Rows selected by lists of indices, and `...` for the keys that are left out."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from logitkit import SequenceState
from logitkit_adapters.sessions import continuous
from tests.sessions.continuation import PROMPTS
from tests.sessions.engines import ENGINES, loaded
from tests.sessions.spelling import state_of

ROWS = [[97, 98, 99, 100], [101, 102], [103, 104, 105], [106]]


@given(st.lists(st.integers(-2, 1), min_size=1, max_size=5), st.lists(st.integers(-2, 1), min_size=1, max_size=5))
def test_lists_select_what_single_keys_select(batches: list[int], samples: list[int]) -> None:
    state = state_of(ROWS, 2)
    for view in (state, state.tokens):
        found = view[batches, samples, :2]
        single = [view[b, s, :2] for b in batches for s in samples]
        assert found.rows == tuple(one.rows[0] for one in single)
        assert found.weights.reshape(-1).tolist() == [float(one.weights) for one in single]
        assert (found.batch_size, found.num_samples) == (len(batches), len(samples))


def test_an_ellipsis_stands_for_all_keys_that_are_left_out() -> None:
    pairs: list[tuple[Any, Any]] = [
        (..., (slice(None), slice(None), slice(None))),
        (([0, 1], ...), (slice(None), slice(None), slice(None))),
        ((1, ...), (1, slice(None), slice(None))),
        ((1, [0], ...), (1, 0, slice(None))),
        ((..., slice(0, 1)), (slice(None), slice(None), slice(0, 1))),
        ((0, 1, ..., slice(0, 1)), (0, 1, slice(0, 1))),
    ]
    state = state_of(ROWS, 2)
    for short, long in pairs:
        assert state[short].rows == state[long].rows == state.tokens[short].rows
        assert state[short].weights.tolist() == state[long].weights.tolist()
    assert state_of(ROWS[:1])[...].rows == (tuple(ROWS[0]),)
    assert state_of(ROWS)[[3, 0, 3], ...].rows == tuple(tuple(ROWS[i]) for i in (3, 0, 3))


@pytest.mark.parametrize(
    "key",
    [
        ([], ...),
        ([4], ...),
        ([-5], ...),
        ([0, True], ...),
        ([0.0], ...),
        (..., ...),
        (slice(None), [0]),
        (0, 0, ..., 0),
    ],
)
def test_wrong_lists(key: Any) -> None:
    state = state_of(ROWS)
    for view in (state, state.tokens):
        with pytest.raises(IndexError):
            view[key]


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_by_list_keep_their_cache_and_continue_like_single_rows(engine: str) -> None:
    text = continuous(*loaded(engine))
    state = text(PROMPTS, max_new_tokens=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picked = state[[2, 0], ...]
        assert picked.cached > 0
        assert picked.new_texts == (state.new_texts[2], state.new_texts[0])
        for found, row in zip(text(picked, max_new_tokens=4).rows, (2, 0), strict=True):
            assert found == text(state[row, :], max_new_tokens=4).rows[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_new_texts_complete_the_prompts(engine: str) -> None:
    text = continuous(*loaded(engine))
    state = text(PROMPTS, max_new_tokens=6)
    again = text(state, max_new_tokens=3)
    for prompt, first, second, whole in zip(PROMPTS, state.new_texts, again.new_texts, again.texts, strict=True):
        assert prompt + first + second == whole
        assert first
    # A state that is carried on is one generation.
    carried = continuous(*loaded(engine), carry_state=True)(state, max_new_tokens=3)
    assert carried.new_texts == tuple(a + b for a, b in zip(state.new_texts, again.new_texts, strict=True))
    assert (state + " and").new_texts == ("",) * 3


def test_a_new_text_begins_and_ends_with_whole_characters() -> None:
    letters = [*"é".encode(), *"ü".encode()]
    state = state_of([[97, *letters]])
    assert [_text_after(state, seam) for seam in range(6)] == ["aéü", "éü", "éü", "ü", "ü", ""]
    assert _text_after(state.tokens[:4], 1) == "é"


def _text_after(state: SequenceState, seam: int) -> str:
    return replace(state, seams=torch.tensor([seam])).new_texts[0]
