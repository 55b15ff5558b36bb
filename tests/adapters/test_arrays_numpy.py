"""Logits in numpy: what is shared, what is copied, and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logitkit.errors import ConfigurationError
from logitkit_adapters.arrays import ids_to_torch, logits_to_torch
from tests.adapters.array_makers import traits


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda a: a[:, 1], id="a field of a structure"),
        pytest.param(lambda a: a[::2, :2], id="rows apart"),
        pytest.param(lambda a: a[:4, :2].T, id="transposed"),
    ],
)
def test_positive_strides_are_written_in_place(view: Callable[[Any], Any]) -> None:
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
def test_what_must_not_be_written_to_is_copied(make: Callable[[], Any]) -> None:
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


def test_a_read_only_memory_map_stays_as_it_is(tmp_path: Path) -> None:
    np.arange(4, dtype=np.float32).tofile(tmp_path / "logits")
    given = np.memmap(tmp_path / "logits", np.float32, mode="r")
    taken = logits_to_torch(given)
    taken.tensor.zero_()
    assert taken.copied
    assert given.tolist() == [0, 1, 2, 3]
    # No copy says that it is a file.
    assert type(taken.back(taken.tensor).array) is np.ndarray


@pytest.mark.parametrize("mode", ["r+", "w+", "c"])
def test_a_memory_map_is_written_in_place(mode: Any, tmp_path: Path) -> None:
    np.arange(6, dtype=np.float32).tofile(tmp_path / "logits")
    given = np.memmap(tmp_path / "logits", np.float32, mode=mode, shape=(2, 3))
    taken = logits_to_torch(given)
    taken.tensor[:, 1] = 7
    found: Any = taken.back(taken.tensor)
    assert not taken.copied
    assert found.array is given
    assert not found.copied
    assert given[:, 1].tolist() == [7, 7]
    # Of new memory no file knows.
    other = taken.back(taken.tensor * 2).array
    assert type(other) is np.ndarray
    assert other[:, 1].tolist() == [14, 14]


def test_what_was_broadcast_together_is_copied() -> None:
    base = np.arange(3, dtype=np.float32)
    given = np.broadcast_arrays(base, np.zeros((2, 1)))[0]
    taken = logits_to_torch(given)
    assert taken.copied
    assert taken.back(taken.tensor.zero_()).array.tolist() == [[0, 0, 0]] * 2
    assert base.tolist() == [0, 1, 2]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(0,), (1, 0), (3, 0)])
def test_no_columns(order: Any, shape: tuple[int, ...]) -> None:
    given = np.zeros(shape, np.float16, order=order)
    taken = logits_to_torch(given)
    assert taken.back(taken.tensor).array is given
    assert traits(taken.back(taken.tensor.clone()).array) == traits(given)


def test_memory_that_is_locked_later_is_not_handed_out_again() -> None:
    given = np.arange(3, dtype=np.float32)
    logits_to_torch(given).tensor[0, 0] = 5
    given.flags.writeable = False
    taken = logits_to_torch(given)
    taken.tensor.zero_()
    assert taken.copied
    assert given.tolist() == [5, 1, 2]


@pytest.mark.parametrize(
    "dtype", ["V4", [("logit", ">f4")], "M8[s]", "U3", ">c8", np.dtypes.StringDType(), "O", "?", ">i2"], ids=str
)
@pytest.mark.parametrize("step", [1, -1])
def test_a_dtype_that_is_not_floating_point_is_refused(dtype: Any, step: int) -> None:
    with pytest.raises(ConfigurationError, match=r"which torch does not support|need floating point"):
        logits_to_torch(np.zeros(3, dtype)[::step])


@pytest.mark.parametrize("kind", [np.matrix, np.recarray, np.ma.MaskedArray, type("Own", (np.ndarray,), {})])
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_arrays_that_are_more_than_arrays_are_refused(kind: Any) -> None:
    given = np.zeros((2, 3)).view(kind)
    for convert in (logits_to_torch, ids_to_torch):
        with pytest.raises(ConfigurationError, match=f"a {type(given).__name__} .* is an instance of a subclass"):
            convert(given)
