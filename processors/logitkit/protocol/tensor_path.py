"""The choice between two equivalent implementations: row by row on the host, or with tensors only."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["by_tensors"]


def by_tensors(tensor: Tensor) -> bool:
    """Whether to use tensors only: on an accelerator, and while a graph is traced."""
    return not tensor.is_cpu or torch.compiler.is_compiling()
