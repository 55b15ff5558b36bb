"""The context of a batch."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import logitkit as lk
from logitkit.errors import BatchMismatch, ConfigurationError


def test_prompts_are_padded_on_the_right() -> None:
    context = lk.Context.of([[5, 6, 7], [], [8]], vocabulary_size=10, max_length=20)
    assert context.prompt.tolist() == [[5, 6, 7], [-1, -1, -1], [8, -1, -1]]
    assert context.prompt.dtype == context.lengths.dtype == context.prompt_lengths.dtype == torch.int64
    assert context.prompt_lengths.tolist() == context.lengths.tolist() == [3, 0, 1]
    assert (context.batch_size, context.vocabulary_size, context.max_length) == (3, 10, 20)
    assert context.device == torch.device("cpu")


@pytest.mark.parametrize(("prompts", "shape"), [([], (0, 0)), ([[]], (1, 0)), ([[], []], (2, 0))])
def test_batches_and_prompts_may_be_empty(prompts: list[list[int]], shape: tuple[int, int]) -> None:
    context = lk.Context.of(prompts, vocabulary_size=10)
    assert context.prompt.shape == shape
    assert context.batch_size == shape[0]


def test_a_context_cannot_be_changed() -> None:
    context = lk.Context.of([[1]], vocabulary_size=10)
    with pytest.raises(dataclasses.FrozenInstanceError):
        context.vocabulary_size = 11  # type: ignore[misc]


def test_select_picks_permutes_and_repeats_rows() -> None:
    context = lk.Context.of([[5, 6], [7], []], vocabulary_size=10, max_length=9)
    context = dataclasses.replace(context, lengths=torch.tensor([4, 5, 6]))
    picked = lk.select_context(context, torch.tensor([2, 0, 0]))
    assert picked.prompt.tolist() == [[-1, -1], [5, 6], [5, 6]]
    assert picked.prompt_lengths.tolist() == [0, 2, 2]
    assert picked.lengths.tolist() == [6, 4, 4]
    assert (picked.vocabulary_size, picked.max_length, picked.device) == (10, 9, context.device)


def test_concatenate_pads_prompts_and_keeps_the_order() -> None:
    a, b = lk.Context.of([[5]], 10, max_length=9), lk.Context.of([[6, 7, 8], []], 10, max_length=12)
    joined = lk.concatenate_context([a, dataclasses.replace(b, lengths=torch.tensor([5, 1]))])
    assert joined.prompt.tolist() == [[5, -1, -1], [6, 7, 8], [-1, -1, -1]]
    assert joined.prompt_lengths.tolist() == [1, 3, 0]
    assert joined.lengths.tolist() == [1, 5, 1]
    assert joined.max_length == 12


def test_a_joined_length_is_known_only_if_all_are() -> None:
    known, unknown = lk.Context.of([[5]], 10, max_length=9), lk.Context.of([[5]], 10)
    assert lk.concatenate_context([known, unknown]).max_length is None


def test_contexts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least one"):
        lk.concatenate_context([])
    with pytest.raises(BatchMismatch, match=r"10 columns on cpu and of 11 columns on cpu"):
        lk.concatenate_context([lk.Context.of([[5]], 10), lk.Context.of([[5]], 11)])
    with pytest.raises(BatchMismatch, match=r"10 columns on cpu and of 10 columns on meta"):
        lk.concatenate_context([lk.Context.of([[5]], 10), lk.Context.of([[5]], 10, device="meta")])


@pytest.mark.parametrize("given", [-1, True, 2.0, "2", None, np.float64(2), torch.tensor(True)])
def test_a_value_that_is_not_a_token_id_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"prompt 1 has .*; allowed are token ids, integers from 0"):
        lk.Context.of([[5], [6, given]], 10)


def test_ids_of_numpy_and_torch_are_ids() -> None:
    context = lk.Context.of([np.array([5, 6]), torch.tensor([7])], 10)  # type: ignore[list-item]
    assert context.prompt.tolist() == [[5, 6], [7, -1]]


def test_contexts_are_compared_by_identity() -> None:
    one = lk.Context.of([[5, 6]], 10)
    assert one == one
    assert one != lk.Context.of([[5, 6]], 10)
    assert len({one, lk.Context.of([[5, 6]], 10)}) == 2


def test_rows_keep_their_stream_of_random_numbers() -> None:
    context = lk.Context.of([[5], [6], [7]], 10)
    assert context.stream_ids is None
    assert context.streams.tolist() == [0, 1, 2]
    assert lk.select_context(context, torch.tensor([2, 0, 0])).streams.tolist() == [2, 0, 0]
    named = dataclasses.replace(context, stream_ids=torch.tensor([70, 80, 90]))
    assert named.streams.tolist() == [70, 80, 90]
    assert lk.select_context(named, torch.tensor([2, 0])).streams.tolist() == [90, 70]


def test_joined_batches_draw_the_numbers_that_each_drew_alone() -> None:
    a, b = lk.Context.of([[5], [6]], 10), lk.Context.of([[7], [8]], 10)
    named = dataclasses.replace(b, stream_ids=torch.tensor([9, 4]))
    assert lk.concatenate_context([a, b]).streams.tolist() == [0, 1, 0, 1]
    assert lk.concatenate_context([a, named, b]).streams.tolist() == [0, 1, 9, 4, 0, 1]
    moved = lk.select_context(lk.concatenate_context([a, named]), torch.tensor([3, 1]))
    assert lk.concatenate_context([moved, a]).streams.tolist() == [4, 1, 0, 1]


def test_rows_may_differ_in_how_many_tokens_they_have() -> None:
    unknown, alike = lk.Context.of([[5], [6]], 10), lk.Context.of([[5], [6]], 10, max_length=9)
    assert unknown.limits is None
    assert limits(alike) == [9, 9]
    differ = replace(alike, max_lengths=torch.tensor([9, 4]))
    assert limits(differ) == [9, 4]
    assert limits(differ.at(differ.lengths + 1)) == [9, 4]
    assert limits(lk.select_context(differ, torch.tensor([1, 1, 0]))) == [4, 4, 9]
    assert limits(lk.select_context(alike, torch.tensor([1]))) == [9]
    joined = lk.concatenate_context([differ, lk.Context.of([[5]], 10, max_length=12)])
    assert (joined.max_length, limits(joined)) == (12, [9, 4, 12])
    joined = lk.concatenate_context([alike, lk.Context.of([[5]], 10, max_length=12)])
    assert (joined.max_length, limits(joined)) == (12, [9, 9, 12])
    joined = lk.concatenate_context([differ, unknown])
    assert (joined.max_length, joined.limits) == (None, None)
    assert lk.concatenate_context([alike, alike]).max_lengths is None


def limits(context: lk.Context) -> list[int]:
    assert context.limits is not None
    found: list[int] = context.limits.tolist()
    return found
