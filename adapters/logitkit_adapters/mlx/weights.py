"""The identity of a model of an mlx engine, for files of states."""

from __future__ import annotations

import hashlib
from typing import Any

import mlx.core as mx
import numpy as np
import torch
from mlx.utils import tree_flatten

from logitkit_adapters.sessions.shared_model import checksum

__all__ = ["fingerprint"]


def fingerprint(model: Any) -> str:
    """Return a string that identifies a model: its arguments and all values of its parameters."""
    digest = hashlib.sha256(repr(getattr(model, "args", getattr(model, "config", None))).encode())
    parameters: Any = tree_flatten(model.parameters())
    for name, values in parameters:
        data = torch.from_numpy(np.array(mx.view(values.reshape(-1), mx.uint8), copy=False))
        digest.update(f"{name}{values.shape}{values.dtype}{checksum(data)}".encode())
    return f"{type(model).__module__} {digest.hexdigest()}"
