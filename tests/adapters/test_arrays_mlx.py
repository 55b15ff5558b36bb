"""Logits in mlx: what is yet to be computed of them stays what it would have been."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch

from logitkit.errors import ConfigurationError
from logitkit_adapters.arrays import ids_to_torch, logits_to_torch, mlx_arrays


def test_other_consumers_see_what_they_would_have_seen() -> None:
    given = mx.array([[1.0, 2.0, 3.0]]) + 1
    # Not computed when the logits are taken, and of the same memory: results, and views.
    doubled, row, reshaped = given * 2, given[0], given.reshape(3, 1)
    taken = logits_to_torch(given)
    taken.tensor.fill_(-torch.inf)
    array = taken.back(taken.tensor).array
    assert doubled.tolist() == [[4, 6, 8]]
    assert row.tolist() == [2, 3, 4]
    assert reshaped.tolist() == [[2], [3], [4]]
    assert given.tolist() == [[2, 3, 4]]
    assert array.tolist() == [[-np.inf] * 3]


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda a: a[::-1], id="rows backwards"),
        pytest.param(lambda a: a[:, ::-1], id="columns backwards"),
        pytest.param(lambda a: a.T, id="transposed"),
        pytest.param(lambda a: a[:, 1:], id="a part"),
        pytest.param(lambda a: mx.broadcast_to(a[:1], (3, 4)), id="broadcast"),
    ],
)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_any_layout(view: Callable[[Any], Any], dtype: Any) -> None:
    base = mx.arange(8).reshape(2, 4).astype(dtype)
    given = view(base)
    expected = given.tolist()
    taken = logits_to_torch(given)
    assert taken.copied
    assert taken.tensor.tolist() == expected
    assert taken.back(taken.tensor).array.tolist() == expected
    taken.tensor.zero_()
    assert base.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_memory_that_mlx_takes_over_is_not_that_of_what_was_given(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # As `mx.array` may do in another version: the first answer is the array whose memory was offered.
    given = mx.array([[1.0, 2.0]], dtype)
    offered: list[Any] = []

    def array(values: Any, dtype: Any) -> Any:
        offered.append(values)
        return given if len(offered) == 1 else mx.array(values, dtype)

    monkeypatch.setattr(mlx_arrays, "mx", SimpleNamespace(array=array, bfloat16=mx.bfloat16))
    taken = logits_to_torch(given)
    assert taken.tensor.tolist() == [[1, 2]]
    assert taken.back(taken.tensor.zero_()).array.tolist() == [[0, 0]]
    assert given.tolist() == [[1, 2]]
    assert len(offered) == 2


def test_doubles_stay_doubles() -> None:
    given = mx.array([[1 / 3, 1e300]], mx.float64)
    taken = logits_to_torch(given)
    array = taken.back(taken.tensor).array
    assert array.dtype == mx.float64
    assert array.tolist() == [[1 / 3, 1e300]]


def test_the_tensor_outlives_the_array() -> None:
    ids = mx.arange(1000) + 1
    tensor = ids_to_torch(ids).tensor
    del ids
    mx.eval([mx.zeros(1000) for _ in range(20)])
    assert tensor[0].tolist() == list(range(1, 1001))


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="complex64"):
        logits_to_torch(mx.array([1j, 2]))


@pytest.mark.parametrize("dtype", [mx.int8, mx.int32, mx.uint64, mx.bool_, mx.complex64], ids=str)
def test_a_dtype_that_is_not_floating_point_is_refused(dtype: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"need floating point|complex64"):
        logits_to_torch(mx.zeros((1, 3), dtype))


def test_an_array_inside_of_a_transformation_is_an_error_and_not_the_end_of_the_process() -> None:
    with pytest.raises(RuntimeError, match="during function transformations"):
        mx.compile(lambda row: mx.array(logits_to_torch(row).tensor))(mx.zeros(3))
    given = mx.array([1.0, 2.0])
    gradient = mx.grad(lambda row: (logits_to_torch(row).tensor.zero_(), (row * row).sum())[1])(given)
    assert gradient.tolist() == [2, 4]


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32], ids=str)
def test_results_of_any_layout_come_back(dtype: Any) -> None:
    taken = logits_to_torch(mx.array([[1.0, 2.0], [3.0, 4.0]], dtype))
    for result in (taken.tensor.T, taken.tensor.flip(1), taken.tensor[:, :1].expand(2, 2), taken.tensor.clone()):
        array = taken.back(result).array
        assert array.dtype == dtype
        assert array.tolist() == result.tolist()
