"""Arrays of every kind in torch and back: what is shared, what is copied, what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch
from torch import Tensor

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit_adapters.array_kinds import mlx_arrays
from logitkit_adapters.arrays import call_to_torch, ids_to_torch, logits_to_torch

VALUES = {
    (4,): [0.5, -1.25, 3.0, -0.0],
    (1, 4): [[0.5, -1.25, 3.0, -0.0]],
    (2, 3): [[0.5, -1.25, 3.0], [-0.0, 2.0, 8.0]],
}


def numpy_array(values: Any, dtype: str) -> Any:
    return np.array(values, dtype)


def torch_tensor(values: Any, dtype: str) -> Any:
    return torch.tensor(values, dtype=getattr(torch, dtype))


def mlx_array(values: Any, dtype: str) -> Any:
    return mx.array(values, getattr(mx, dtype))


def within_itself() -> list[Any]:
    """A list that holds itself."""
    made: list[Any] = []
    made.append(made)
    return made


def plain_list(values: Any, dtype: str) -> Any:
    return [list(row) if isinstance(row, list) else row for row in values]


def floats_of(array: Any) -> Any:
    if isinstance(array, Tensor):
        return array.detach().double().tolist()
    if isinstance(array, np.ndarray):
        return array.astype(np.float64).tolist()
    return array.astype(mx.float32).tolist() if isinstance(array, mx.array) else array


def traits(array: Any) -> tuple[Any, ...]:
    return (
        type(array),
        getattr(array, "dtype", None),
        np.shape(array) if isinstance(array, list) else tuple(array.shape),
    )


def masked(rows: Any) -> Any:
    """The same values, but -inf for the second of each row."""
    if not isinstance(rows[0], list):
        return [rows[0], -np.inf, *rows[2:]]
    return [masked(row) for row in rows]


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


class TestNumpy:
    @pytest.mark.parametrize(
        "view",
        [
            pytest.param(lambda a: a[:, 1], id="a field of a structure"),
            pytest.param(lambda a: a[::2, :2], id="rows apart"),
            pytest.param(lambda a: a[:4, :2].T, id="transposed"),
        ],
    )
    def test_positive_strides_are_written_in_place(self, view: Callable[[Any], Any]) -> None:
        base = np.arange(24, dtype=np.float32).reshape(8, 3)
        given = view(base)
        outside = base.copy()
        view(outside)[...] = 0
        taken = logits_to_torch(given)
        assert not taken.copied
        assert taken.back(taken.tensor.zero_()).array is given
        assert not given.any()
        assert np.array_equal(base, outside)

    @pytest.mark.parametrize(
        "make",
        [
            pytest.param(lambda: np.arange(6, dtype=np.float32)[::-1], id="negative stride"),
            pytest.param(lambda: np.arange(6, dtype=np.float32).reshape(2, 3)[::-1, ::-1], id="negative strides"),
            pytest.param(lambda: np.arange(6, dtype=">f4"), id="big-endian"),
            pytest.param(lambda: np.arange(6, dtype=">f2").reshape(2, 3)[:, ::-1], id="big-endian, backwards"),
            pytest.param(lambda: np.frombuffer(np.arange(6, dtype=np.float64).tobytes()), id="read-only"),
            pytest.param(lambda: np.broadcast_to(np.arange(3, dtype=np.float32), (2, 3)), id="broadcast"),
            pytest.param(
                lambda: np.lib.stride_tricks.as_strided(np.arange(9, dtype=np.float32), (3, 5), (4, 4), writeable=True),
                id="overlapping",
            ),
            pytest.param(
                lambda: np.lib.stride_tricks.as_strided(np.arange(9, dtype=np.float32), (3, 5), (0, 4), writeable=True),
                id="one row many times",
            ),
            pytest.param(
                lambda: np.frombuffer(bytearray(25), np.uint8)[1:].view(np.float32),
                id="misaligned",
            ),
            pytest.param(
                lambda: np.zeros(4, np.dtype([("id", np.int16), ("logit", np.float32)], align=False))["logit"],
                id="packed structure",
            ),
        ],
    )
    def test_what_must_not_be_written_to_is_copied(self, make: Callable[[], Any]) -> None:
        given = make()
        before = given.copy()
        taken = logits_to_torch(given)
        assert taken.copied
        assert np.array_equal(taken.tensor.numpy().reshape(given.shape), before)
        array, copied_back = taken.back(taken.tensor.fill_(5))
        assert np.array_equal(given, before)
        assert traits(array) == traits(given)
        assert (array == 5).all()
        assert copied_back == (not given.dtype.isnative)

    def test_a_read_only_memory_map_stays_as_it_is(self, tmp_path: Path) -> None:
        np.arange(4, dtype=np.float32).tofile(tmp_path / "logits")
        given = np.memmap(tmp_path / "logits", np.float32, mode="r")
        taken = logits_to_torch(given)
        taken.tensor.zero_()
        assert taken.copied
        assert given.tolist() == [0, 1, 2, 3]


class TestTorch:
    @pytest.mark.parametrize(
        "make",
        [
            pytest.param(lambda: torch.arange(4.0).requires_grad_(), id="a leaf that requires grad"),
            pytest.param(lambda: torch.arange(4.0).requires_grad_() * 1, id="a result that requires grad"),
            pytest.param(lambda: torch.nn.Parameter(torch.ones(2, 3)), id="a weight"),
            pytest.param(lambda: torch.ones(1, 3).expand(2, 3), id="expanded"),
            pytest.param(lambda: torch.arange(9.0).as_strided((3, 5), (1, 1)), id="overlapping"),
            pytest.param(lambda: torch.arange(3.0).mul(1j).conj().imag, id="negated"),
        ],
    )
    def test_what_must_not_be_written_to_is_copied(self, make: Callable[[], Tensor]) -> None:
        given = make()
        before = given.detach().clone()
        taken = logits_to_torch(given)
        assert taken.copied
        assert not taken.tensor.requires_grad
        array = taken.back(taken.tensor.fill_(5)).array
        assert torch.equal(given.detach(), before)
        assert (array == 5).all()
        assert array.shape == given.shape

    def test_a_gradient_is_that_of_what_was_given(self) -> None:
        weight = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        logits = weight.exp()
        logits_to_torch(logits).tensor.zero_()
        logits.sum().backward()
        assert weight.grad is not None
        assert torch.equal(weight.grad, weight.detach().exp())

    def test_inference_tensors_outside_of_that_mode_are_copied(self) -> None:
        with torch.inference_mode():
            given = torch.ones(1, 3)
            assert not logits_to_torch(given).copied
        taken = logits_to_torch(given)
        assert taken.copied
        assert taken.back(taken.tensor.zero_()).array.tolist() == [[0, 0, 0]]
        assert given.tolist() == [[1, 1, 1]]

    @pytest.mark.parametrize(
        "given", [torch.eye(3).to_sparse(), torch.ones(2, 3, device="meta")], ids=["sparse", "without values"]
    )
    def test_tensors_without_a_value_each_are_refused(self, given: Tensor) -> None:
        with pytest.raises(ConfigurationError, match="not dense, or has no values"):
            logits_to_torch(given)

    @pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
    def test_rows_of_several_lengths_are_refused(self, layout: torch.layout) -> None:
        given = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
        with pytest.raises(ConfigurationError, match="logits of shape"):
            call_to_torch([[1], [2]], given)


class TestMlx:
    def test_other_consumers_see_what_they_would_have_seen(self) -> None:
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
    def test_any_layout(self, view: Callable[[Any], Any], dtype: Any) -> None:
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
    def test_memory_that_mlx_takes_over_is_not_that_of_what_was_given(
        self, dtype: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
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

    def test_doubles_stay_doubles(self) -> None:
        given = mx.array([[1 / 3, 1e300]], mx.float64)
        taken = logits_to_torch(given)
        array = taken.back(taken.tensor).array
        assert array.dtype == mx.float64
        assert array.tolist() == [[1 / 3, 1e300]]

    def test_the_tensor_outlives_the_array(self) -> None:
        ids = mx.arange(1000) + 1
        tensor = ids_to_torch(ids).tensor
        del ids
        mx.eval([mx.zeros(1000) for _ in range(20)])
        assert tensor[0].tolist() == list(range(1, 1001))

    def test_complex_numbers_are_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="complex64"):
            logits_to_torch(mx.array([1j, 2]))


class TestIds:
    @pytest.mark.parametrize(
        ("ids", "copied"),
        [
            (np.array([[1, 2]], np.int32), False),
            (np.array([1, 2], np.int64), False),
            (np.array([1, 2], np.uint16), True),
            (np.array([1, 2], ">i4"), True),
            (np.array([2, 1])[::-1], True),
            (torch.tensor([1, 2]), False),
            (torch.tensor([[1, 2]], dtype=torch.uint8), True),
            (mx.array([1, 2]), False),
            (mx.array([1, 2], mx.int64), False),
            (mx.array([1, 2], mx.uint32), True),
            (mx.array([2, 1])[::-1], True),
            ([1, 2], True),
            ([[1, 2]], True),
        ],
        ids=str,
    )
    def test_every_kind(self, ids: Any, copied: bool) -> None:
        taken = ids_to_torch(ids)
        assert taken.tensor.tolist() == [[1, 2]]
        assert taken.tensor.dtype in (torch.int32, torch.int64)
        assert taken.copied == copied

    def test_none_yet(self) -> None:
        ids: Any
        for ids in ([], [[]], np.zeros(0, np.int64), torch.zeros(1, 0, dtype=torch.int32), mx.zeros(0, mx.uint32)):
            taken = ids_to_torch(ids)
            assert taken.tensor.shape == (1, 0)
            assert taken.tensor.dtype in (torch.int32, torch.int64)

    @pytest.mark.parametrize(
        "ids",
        [np.ones(2), torch.ones(2), mx.ones(2), [1.0, 2.0], [True, False], np.array([True]), mx.array([True])],
        ids=str,
    )
    def test_what_is_no_integer_is_refused(self, ids: Any) -> None:
        with pytest.raises(ConfigurationError, match="need integers"):
            ids_to_torch(ids)


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
        (np.zeros(3, object), "torch knows no numpy arrays of object"),
        (np.array(["a"]), "torch knows no numpy arrays"),
        (np.zeros(3, np.longdouble), "torch knows no numpy arrays"),
        (np.ma.masked_array([1.0, 2.0], [0, 1]), "MaskedArray"),
        ([[1.0, 2.0], [3.0]], r"a list of shape \[2, 2\]"),
        (within_itself(), r"list of shape \[1(, 1)*\]"),
        ([1.0, [2.0]], "rows of equal lengths"),
        ([1.0, "a"], "something else than numbers"),
        ([1.0, None], "something else than numbers"),
        ((1.0, 2.0), r"tuple of shape \[\]; supported are numpy\.ndarray, torch\.Tensor, mlx\.core\.array and list"),
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


def test_ids_beyond_int64_are_refused() -> None:
    assert ids_to_torch(np.array([2**63 - 1], np.uint64)).tensor.tolist() == [[2**63 - 1]]
    with pytest.raises(ConfigurationError, match="fit into int64"):
        ids_to_torch(np.array([3, 2**63 + 1], np.uint64))


@pytest.mark.parametrize("given", [[np.zeros((2, 3))], [(1.0, 2.0), (3.0, 4.0)], [b"ab"], [[np.zeros(3)]]], ids=repr)
@pytest.mark.parametrize("convert", [ids_to_torch, logits_to_torch])
def test_lists_of_something_else_are_refused(convert: Callable[[Any], Any], given: Any) -> None:
    with pytest.raises(ConfigurationError):
        convert(given)
