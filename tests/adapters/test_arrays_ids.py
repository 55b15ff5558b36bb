"""Token ids of any engine, which are only read."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch

from logitkit.errors import ConfigurationError
from logitkit_adapters.arrays import ids_to_torch


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
def test_every_kind(ids: Any, copied: bool) -> None:
    taken = ids_to_torch(ids)
    assert taken.tensor.tolist() == [[1, 2]]
    assert taken.tensor.dtype in (torch.int32, torch.int64)
    assert taken.copied == copied


def test_none_yet() -> None:
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
def test_what_is_no_integer_is_refused(ids: Any) -> None:
    with pytest.raises(ConfigurationError, match="need integers"):
        ids_to_torch(ids)


def test_ids_beyond_int64_are_refused() -> None:
    assert ids_to_torch(np.array([2**63 - 1], np.uint64)).tensor.tolist() == [[2**63 - 1]]
    with pytest.raises(ConfigurationError, match="fit into int64"):
        ids_to_torch(np.array([3, 2**63 + 1], np.uint64))
