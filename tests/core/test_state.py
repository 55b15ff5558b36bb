"""Rows of states: picked, joined, moved."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import BatchMismatch, ConfigurationError, ProcessorError
from logitkit.protocol import rows_of


class Inner(NamedTuple):
    window: Annotated[Tensor, lk.Fill(-1)]
    share: Annotated[Tensor, lk.Fill(0.5)]


class Outer(NamedTuple):
    number: Tensor
    inner: Inner


def outer(rows: int, width: int, start: int = 0) -> Outer:
    numbers = torch.arange(start, start + rows)
    return Outer(numbers, Inner(numbers[:, None].repeat(1, width).to(torch.int32), torch.ones(rows, width, 2)))


def test_select_picks_permutes_and_repeats_rows_of_nested_states() -> None:
    state = (outer(3, 2), (), (torch.tensor([5.0, 6.0, 7.0]),))
    picked = lk.select(state, torch.tensor([2, 0, 0, 1]))
    assert isinstance(picked[0], Outer)
    assert isinstance(picked[0].inner, Inner)
    assert picked[0].number.tolist() == [2, 0, 0, 1]
    assert picked[0].inner.window.tolist() == [[2, 2], [0, 0], [0, 0], [1, 1]]
    assert picked[1] == ()
    assert picked[2][0].tolist() == [7.0, 5.0, 5.0, 6.0]
    assert state[0].number.tolist() == [0, 1, 2]


def test_select_of_no_rows_keeps_the_structure() -> None:
    none = lk.select(outer(3, 2), torch.empty(0, dtype=torch.int64))
    assert none.inner.window.shape == (0, 2)
    assert rows_of(none) == 0


def test_what_is_selected_shares_no_memory() -> None:
    state = outer(2, 1)
    lk.select(state, torch.tensor([0, 1])).number.fill_(9)
    assert state.number.tolist() == [0, 1]


def test_concatenate_pads_every_field_with_its_own_fill() -> None:
    joined = lk.concatenate([outer(1, 1), outer(1, 3, start=8), outer(1, 2, start=4)])
    assert joined.number.tolist() == [0, 8, 4]
    assert joined.inner.window.tolist() == [[0, -1, -1], [8, 8, 8], [4, 4, -1]]
    assert joined.inner.window.dtype == torch.int32
    half, one = [0.5, 0.5], [1.0, 1.0]
    assert joined.inner.share.tolist() == [[one, half, half], [one, one, one], [one, one, half]]


def test_concatenate_pads_with_zero_where_no_fill_is_declared() -> None:
    joined = lk.concatenate([(torch.ones(1, 1),), (torch.ones(1, 2),)])
    assert joined[0].tolist() == [[1.0, 0.0], [1.0, 1.0]]


def test_a_joined_state_is_taken_apart_by_select() -> None:
    parts = [outer(2, 3), outer(1, 3, start=7)]
    joined = lk.concatenate(parts)
    assert lk.select(joined, torch.tensor([2])).inner.window.equal(parts[1].inner.window)
    assert lk.select(joined, torch.tensor([0, 1])).inner.share.equal(parts[0].inner.share)


def test_concatenate_of_nothing_and_of_different_states_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least one"):
        lk.concatenate([])
    with pytest.raises(BatchMismatch, match=r"Inner, Outer.*one processor kind"):
        lk.concatenate([outer(1, 1), outer(1, 1).inner])
    with pytest.raises(BatchMismatch, match="structure"):
        lk.concatenate([(torch.ones(1),), (torch.ones(1), torch.ones(1))])
    with pytest.raises(BatchMismatch, match="dtype"):
        lk.concatenate([(torch.ones(1),), (torch.ones(1, dtype=torch.int64),)])
    with pytest.raises(BatchMismatch, match="dimensions"):
        lk.concatenate([(torch.ones(1),), (torch.ones(1, 1),)])


def test_to_moves_every_tensor() -> None:
    state = (outer(2, 1), ())
    moved = lk.to(state, "meta")
    assert moved[0].number.device.type == moved[0].inner.share.device.type == "meta"
    assert isinstance(moved[0].inner, Inner)
    assert lk.to(state, "cpu")[0].number is state[0].number


def test_rows_are_counted_and_must_agree() -> None:
    assert rows_of((outer(3, 1), ())) == 3
    assert rows_of(()) is None
    with pytest.raises(BatchMismatch, match=r"\[1, 2\]"):
        rows_of((torch.ones(2), torch.ones(1, 4)))


def test_a_state_of_anything_but_tensors_is_refused() -> None:
    with pytest.raises(ProcessorError, match="holds a list"):
        lk.select(([1, 2],), torch.tensor([0]))
