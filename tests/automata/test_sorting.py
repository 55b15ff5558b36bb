"""Numbers of rows of several columns."""

from __future__ import annotations

import numpy as np
import pytest

from logitkit.compiler.bytes.sorting import distinct_rows


@pytest.mark.parametrize("largest", [1, 100, 2**30, 2**40])
def test_rows_are_told_apart_as_by_numpy(largest: int) -> None:
    random = np.random.default_rng(3)
    columns = [random.choice([0, largest // 3, largest - 1, largest], 200) for _ in range(4)]
    places, which = distinct_rows(columns)
    expected, inverse = np.unique(np.stack(columns), axis=1, return_inverse=True)
    assert np.array_equal(np.stack(columns)[:, places], expected)
    assert np.array_equal(which, inverse.ravel())
