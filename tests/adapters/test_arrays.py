"""Arrays of every kind in torch and back: what is shared, what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch
from torch import Tensor

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit_adapters.arrays import call_to_torch, ids_to_torch, logits_to_torch
from tests.adapters.array_makers import (
    VALUES,
    floats_of,
    masked,
    mlx_array,
    numpy_array,
    plain_list,
    torch_tensor,
    traits,
)


def within_itself() -> list[Any]:
    """A list that holds itself."""
    made: list[Any] = []
    made.append(made)
    return made


ROUND_TRIPS = [
    pytest.param(make, dtype, copied, id=f"{make.__name__}, {dtype}")
    for make, copied, dtypes in (
        (numpy_array, False, ("float16", "float32", "float64")),
        (torch_tensor, False, ("float16", "bfloat16", "float32", "float64")),
        (mlx_array, True, ("float16", "bfloat16", "float32")),
        (plain_list, True, ("float64",)),
    )
    for dtype in dtypes
]


@pytest.mark.parametrize("shape", VALUES, ids=str)
@pytest.mark.parametrize(("make", "dtype", "copied"), ROUND_TRIPS)
class TestRoundTrip:
    def test_in_place(self, make: Callable[..., Any], dtype: str, copied: bool, shape: tuple[int, ...]) -> None:
        given = make(VALUES[shape], dtype)
        before = floats_of(given)
        taken = logits_to_torch(given)
        assert taken.tensor.shape == (shape if len(shape) == 2 else (1, *shape))
        assert taken.tensor.dtype == getattr(torch, dtype)
        assert taken.tensor.reshape(shape).tolist() == before
        taken.tensor[:, 1] = -torch.inf
        array, copied_back = taken.back(taken.tensor)
        # The copy of an mlx array is an mlx array already.
        assert (taken.copied, copied_back) == (copied, make is plain_list)
        assert traits(array) == traits(given)
        assert floats_of(array) == masked(before)
        assert floats_of(given) == (before if copied else masked(before))
        assert (array is given) == (not copied)

    def test_another_result(self, make: Callable[..., Any], dtype: str, copied: bool, shape: tuple[int, ...]) -> None:
        given = make(VALUES[shape], dtype)
        before = floats_of(given)
        taken = logits_to_torch(given)
        result = taken.tensor * 2
        array, copied_back = taken.back(result)
        assert traits(array) == traits(given)
        assert np.array_equal(floats_of(array), 2 * np.array(before))
        assert floats_of(given) == before
        assert copied_back == copied
        if not copied:
            result[:] = 7
            assert set(np.ravel(floats_of(array))) == {7}


def test_signs_of_zero_and_infinities_survive() -> None:
    for make in (numpy_array, torch_tensor, mlx_array, plain_list):
        taken = logits_to_torch(make([[-0.0, 0.0, np.inf, -np.inf, np.nan]], "float32"))
        values = np.array(floats_of(taken.back(taken.tensor).array))
        assert np.signbit(values[0, :2]).tolist() == [True, False]
        assert values[0, 2:4].tolist() == [np.inf, -np.inf]
        assert np.isnan(values[0, 4])


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (
            np.zeros((1, 2, 3)),
            r"numpy\.ndarray of shape \[1, 2, 3\] and float64; allowed are \[V\], \[1, V\] or \[B, V\]",
        ),
        (torch.zeros(1, 2, 3), r"\[1, 2, 3\]"),
        (mx.zeros((1, 2, 3)), r"\[1, 2, 3\]"),
        ([[[1.0]]], r"\[1, 1, 1\]"),
        (np.float32(1), r"numpy\.float32 of shape \[\]"),
        (torch.tensor(1.0), r"shape \[\]"),
        (np.array(1.0), r"shape \[\]"),
        (np.zeros(3, np.int64), "need floating point"),
        (torch.zeros(3, dtype=torch.bool), "need floating point"),
        (mx.zeros(3, mx.int32), "need floating point"),
        (np.zeros(3, np.complex64), "need floating point"),
        (np.zeros(3, object), "has the dtype object, which torch does not support"),
        (np.array(["a"]), "which torch does not support"),
        (np.zeros(3, np.longdouble), "which torch does not support"),
        (np.ma.masked_array([1.0, 2.0], [0, 1]), "MaskedArray"),
        ([[1.0, 2.0], [3.0]], r"a list of shape \[2, 2\]"),
        (within_itself(), r"list of shape \[1(, 1)*\]"),
        ([1.0, [2.0]], "rows of equal lengths"),
        ([[], [1.0]], "rows of different lengths"),
        ([True, False], "holds a bool"),
        ([1.0, "a"], "something other than numbers"),
        ([1.0, None], "something other than numbers"),
        (
            (1.0, 2.0),
            r"tuple of shape \[\]; supported are numpy\.ndarray, torch\.Tensor, jax\.Array, mlx\.core\.array and list",
        ),
        (None, "NoneType"),
        ("text", "str of shape"),
        (memoryview(b"1234"), "memoryview"),
    ],
    ids=lambda value: "" if isinstance(value, memoryview) else str(value),
)
def test_what_is_refused(logits: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        logits_to_torch(logits)
    with pytest.raises(ConfigurationError, match=r"\(the call has ids of shape \[1\] and logits of shape "):
        call_to_torch([1], logits)


@pytest.mark.parametrize(
    ("ids", "logits"),
    [
        ([1, 2], np.zeros((2, 4))),
        ([[1], [2]], torch.zeros(4)),
        (np.zeros((3, 1), np.int64), mx.zeros((2, 4))),
        (mx.zeros((2, 7), mx.int32), [[0.0], [0.0], [0.0]]),
    ],
    ids=str,
)
def test_ids_and_logits_of_other_batches_are_refused_by_both_shapes(ids: Any, logits: Any) -> None:
    shapes = [list(np.shape(a)) for a in (ids, logits)]
    with pytest.raises(BatchMismatch) as raised:
        call_to_torch(ids, logits)
    assert f"ids of shape {shapes[0]} and logits of shape {shapes[1]}" in str(raised.value)


@pytest.mark.parametrize("make", [numpy_array, torch_tensor, mlx_array, plain_list])
def test_a_result_of_another_shape_or_dtype_is_refused(make: Callable[..., Any]) -> None:
    taken = logits_to_torch(make([[1.0, 2.0]], "float32"))
    for other in (taken.tensor[:, :1], taken.tensor[0], taken.tensor.half()):
        with pytest.raises(ConfigurationError, match="return the same shape and dtype"):
            taken.back(other)


def test_mlx_is_not_imported_for_anything_else() -> None:
    program = """
import sys, numpy, torch
from logitkit_adapters.arrays import call_to_torch
for logits in (numpy.zeros(3), torch.zeros(3), [0.0, 1.0]):
    call_to_torch([1], logits)
try:
    call_to_torch([1], object())
except ValueError:
    pass
assert not {"mlx", "transformers", "mlx.core"} & set(sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("given", [[np.zeros((2, 3))], [(1.0, 2.0), (3.0, 4.0)], [b"ab"], [[np.zeros(3)]]], ids=repr)
@pytest.mark.parametrize("convert", [ids_to_torch, logits_to_torch])
def test_lists_of_something_else_are_refused(convert: Callable[[Any], Any], given: Any) -> None:
    with pytest.raises(ConfigurationError):
        convert(given)


MAKERS = [numpy_array, torch_tensor, mlx_array, plain_list]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("own", [False, True])
def test_a_result_that_is_only_marked_as_negated_is_what_it_says(make: Callable[..., Any], own: bool) -> None:
    taken = logits_to_torch(make([[1.0, -2.0]], "float32"))
    array, copied = taken.back(torch._neg_view(taken.tensor.clone() if own else taken.tensor))
    assert floats_of(array) == [[-1, 2]]
    assert copied


@pytest.mark.parametrize("make", MAKERS)
def test_a_result_with_one_number_in_many_places_is_copied_before_it_can_be_written_to(
    make: Callable[..., Any],
) -> None:
    taken = logits_to_torch(make([[1.0, 2.0, 3.0]], "float32"))
    array, copied = taken.back(taken.tensor[:, :1].expand(1, 3))
    assert copied
    row = array[0]
    row[1] = 7.0
    if make is mlx_array:  # in which that changes `row` only
        array = row[None]
    assert floats_of(array) == [[1, 7, 1]]


@pytest.mark.parametrize("make", MAKERS)
def test_a_result_that_is_elsewhere_or_nowhere_is_refused(make: Callable[..., Any]) -> None:
    taken = logits_to_torch(make([[1.0, 2.0]], "float32"))
    with pytest.raises(ConfigurationError, match=r"on meta, but those given are .* on cpu"):
        taken.back(taken.tensor.to("meta"))
    with pytest.raises(ConfigurationError, match="NoneType"):
        taken.back(None)  # type: ignore[arg-type]


class Own(list[Any]):
    """A list that may mean more than its items."""


def test_logits_in_a_list_that_is_more_than_a_list_are_refused() -> None:
    for given in (Own([1.0, 2.0]), Own([[1.0]]), [Own([1.0, 2.0])], [[1.0], Own([2.0])]):
        with pytest.raises(ConfigurationError, match=r"a Own of .* is an instance of a subclass"):
            logits_to_torch(given)
    # No ids come back.
    assert ids_to_torch(Own([1, 2])).tensor.tolist() == [[1, 2]]


@pytest.mark.parametrize("given", [np.ndarray, Tensor, mx.array], ids=str)
def test_classes_are_not_arrays(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="supported are"):
        logits_to_torch(given)
