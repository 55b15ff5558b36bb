"""Where kernels run; elsewhere, tensor operations do the same."""

from __future__ import annotations

import os
import warnings
from functools import cache

import torch
from torch import Tensor
from torch.compiler import is_compiling

from logitkit.errors import ConfigurationError

__all__ = ["INSTEAD", "runs_on"]

# The environment variable that says where kernels run, for servers whose code is not the user's.
VARIABLE = "LOGITKIT_KERNELS"
CHOICES = ("auto", "on", "off")

INSTEAD = "tensor operations run instead, with the same results, in many times the time"


def runs_on(state: Tensor, given: Tensor) -> bool:
    """Whether kernels run on the device of two tensors. If not, the caller runs tensor operations.

    They run on NVIDIA's devices if Triton is installed, as it is with every CUDA build of torch on Linux. On ROCm, for which they
    were compiled but where they never ran, they run only if the environment variable `LOGITKIT_KERNELS` is `on`. They do not run
    while `torch.compile` traces, because it cannot look into them, nor for fake tensors. A kernel gets addresses, and one of
    another device would break all later work on this one. So on two devices tensor operations run, which raise torch's error.

    Args:
        state: A tensor of the state of some rows.
        given: The tokens or logits of these rows.

    Raises:
        ConfigurationError: The environment variable has an unknown value.
    """
    plain = type(state) is Tensor and type(given) is Tensor
    return not is_compiling() and state.is_cuda and plain and state.device == given.device and _is_on()


@cache
def _is_on() -> bool:
    chosen = os.environ.get(VARIABLE, "auto")
    if chosen not in CHOICES:
        raise ConfigurationError(f"the environment variable {VARIABLE} is {chosen!r}; allowed are {', '.join(CHOICES)}")
    if chosen == "off" or (torch.version.hip and chosen == "auto"):
        return False
    # Imported here, because it imports Triton.
    from logitkit.kernels.language import is_installed

    if not is_installed:
        warnings.warn(f"Triton is not installed, so on this GPU {INSTEAD}", RuntimeWarning, stacklevel=3)
    return is_installed
