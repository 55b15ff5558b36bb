"""Arrays of every kind, and what they hold."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import torch
from torch import Tensor

__all__ = ["VALUES", "floats_of", "masked", "mlx_array", "numpy_array", "plain_list", "torch_tensor", "traits"]

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
