"""Conversion of logits and token ids to torch tensors, and of logits back to their original type.

Supported are numpy arrays, torch tensors, mlx and JAX arrays and lists, of shape `[N]`, `[1, N]` or `[B, N]`. Memory is shared
whenever it can safely be written to, and every call reports whether it copied.

| logits in | to torch | back | |---|---|---| | numpy | shared, with any positive strides | the array itself | | numpy:
read-only, big-endian, misaligned, with negative or overlapping strides | copied | a new array (copied if big-endian) | | torch
| shared, on its device | the tensor itself | | torch: requires grad, is expanded, only marked as negated, or an inference
tensor outside of that mode | copied | a new tensor | | JAX | copied, because JAX arrays never change | a JAX array on the
memory of the copy | | mlx | copied, because pending mlx operations may still read it | the copy, as an mlx array | | list |
copied | a new list of floats, copied |

If the result is not the tensor that was given out, it comes back on its own memory in numpy and torch. It is copied only if
that memory does not hold each value once (expanded, or marked as negated), and always for mlx, which cannot use foreign memory.
Token ids are only read, so even those of mlx and JAX are shared. numpy arrays of bfloat16, a dtype of the package ml_dtypes,
are shared as well.

Subclasses: a `numpy.memmap` and a subclass of `torch.Tensor` come back as themselves if they are shared. New memory belongs to
no file or class, so it comes back as `numpy.ndarray` and `torch.Tensor`. Other subclasses of arrays and lists, and tensors that
override computation, are refused, because they mean more than their values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit_adapters.arrays import array_memory as lists
from logitkit_adapters.arrays import numpy_arrays, torch_tensors
from logitkit_adapters.loaded_class import is_instance

__all__ = ["Ids", "Logits", "Returned", "call_to_torch", "ids_to_torch", "logits_to_torch"]

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

# The modules for types that were met before: those of mlx and JAX are imported only if there is such an array.
_KINDS: dict[type, Any] = {np.ndarray: numpy_arrays, Tensor: torch_tensors, list: lists}


class Ids(NamedTuple):
    """Token ids as a read-only tensor.

    Args:
        tensor: [B, L] int32 or int64.
        copied: Whether the tensor is a copy.
    """

    tensor: Tensor
    copied: bool


class Returned(NamedTuple):
    """Processed logits in the engine's type.

    Args:
        array: The logits, in the given container, dtype and shape.
        copied: Whether values were copied on the way back.
    """

    array: Any
    copied: bool


@dataclass(frozen=True, slots=True, eq=False)
class Logits:
    """Logits as a writable tensor, with the way back; made by `logits_to_torch`.

    Args:
        tensor: [B, V] floating point.
        copied: Whether the tensor is a copy, so that the engine's array stays unchanged.
        given: The engine's array.
        own: The array of the engine's type that shares memory with the tensor, or None.
    """

    tensor: Tensor
    copied: bool
    given: Any
    own: Any

    def back(self, processed: Tensor) -> Returned:
        """Return processed logits in the given container, dtype and shape; the tensor must not be written to afterwards.

        Args:
            processed: The tensor itself, or another of the same shape, dtype and device.

        Raises:
            ConfigurationError: The shape, dtype or device differs.
        """
        tensor = self.tensor
        if processed is tensor and self.own is not None:
            return Returned(self.own, False)
        if not isinstance(processed, Tensor):
            raise ConfigurationError(f"the processed logits are {_described(processed)}; return a torch.Tensor")
        if (processed.shape, processed.dtype, processed.device) != (tensor.shape, tensor.dtype, tensor.device):
            raise ConfigurationError(
                f"the processed logits are {list(processed.shape)} of {processed.dtype} on {processed.device}, but those given "
                f"are {list(tensor.shape)} of {tensor.dtype} on {tensor.device}; return the same shape and dtype on that device"
            )
        if self.own is not None and _same_memory(processed, tensor):
            return Returned(self.own, False)
        return Returned(*_kind("logits", self.given).from_torch(processed, self.given))


def logits_to_torch(logits: Any, *, flatten: bool = False) -> Logits:
    """Convert an engine's logits to a writable tensor.

    Args:
        logits: [V], [1, V] or [B, V] floating point (including bfloat16), in numpy, torch, JAX or mlx; or a list of numbers, or
            of lists of numbers, which become float64.
        flatten: Whether an array may have more dimensions, [..., V], all of which are rows.

    Returns:
        The tensor, [B, V], with the way back; it also says whether it is a copy.

    Raises:
        ConfigurationError: The type, dtype or number of dimensions is not supported, or a list is ragged.

    Example:
        >>> import numpy as np
        >>> scores = np.array([1.0, 2.0, 3.0], np.float32)
        >>> taken = logits_to_torch(scores)
        >>> taken.tensor[0, 1] = -torch.inf
        >>> scores.tolist(), taken.copied, taken.back(taken.tensor).array is scores
        ([1.0, -inf, 3.0], False, True)
        >>> scores.flags.writeable = False
        >>> logits_to_torch(scores).copied
        True
    """
    tensor, copied, own = _rows("logits", logits, "[V], [1, V] or [B, V]", writing=True, flatten=flatten)
    if tensor.dtype not in FLOATS:
        raise ConfigurationError(f"logits are {_described(logits)}; they need floating point of 16, 32 or 64 bits")
    return Logits(tensor, copied, logits, own)


def ids_to_torch(ids: Any) -> Ids:
    """Convert an engine's token ids to a read-only tensor.

    Args:
        ids: [L], [1, L] or [B, L] integers in numpy, torch or mlx, or in a list or a list of lists.

    Returns:
        The tensor, [B, L], and whether it is a copy, which it is for dtypes other than int32 and int64.

    Raises:
        ConfigurationError: The type or number of dimensions is not supported, the ids are not integers, or a list is ragged.

    Example:
        >>> ids_to_torch([[5, 6], [7, 8]]).tensor.tolist()
        [[5, 6], [7, 8]]
    """
    tensor, copied, _ = _rows("ids", ids, "[L], [1, L] or [B, L]", writing=False)
    if tensor.dtype not in (torch.int32, torch.int64):
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
            raise ConfigurationError(f"ids are {_described(ids)} with {tensor.dtype}; they need integers")
        unsigned, tensor, copied = tensor.dtype == torch.uint64, tensor.long(), True
        if unsigned and bool((tensor < 0).any()):
            raise ConfigurationError(
                f"ids are {_described(ids)} with one of 2**63 or more; they need to fit into int64"
            )
    return Ids(tensor, copied)


def call_to_torch(ids: Any, logits: Any) -> tuple[Ids, Logits]:
    """Convert the arguments of a hook: the ids of each row, and its logits.

    Args:
        ids: [L], [1, L] or [B, L]; see `ids_to_torch`.
        logits: [V], [1, V] or [B, V]; see `logits_to_torch`.

    Returns:
        Both, with the same number of rows.

    Raises:
        BatchMismatch: The numbers of rows differ.
        ConfigurationError: One of them is refused. Both messages name the shapes of both.

    Example:
        >>> import numpy as np
        >>> ids, logits = call_to_torch([3, 4], np.zeros(8, np.float16))
        >>> ids.tensor.shape, logits.tensor.shape
        (torch.Size([1, 2]), torch.Size([1, 8]))
    """
    try:
        shown, taken = ids_to_torch(ids), logits_to_torch(logits)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} (the call has {_both(ids, logits)})") from error
    if shown.tensor.shape[0] != taken.tensor.shape[0]:
        raise BatchMismatch(f"the call has {_both(ids, logits)}; give the same number of rows of both")
    return shown, taken


def _rows(name: str, array: Any, allowed: str, *, writing: bool, flatten: bool = False) -> tuple[Tensor, bool, Any]:
    kind = _kind(name, array)
    rank = array.ndim if kind is numpy_arrays else len(_shape(array))
    if rank not in (1, 2) and not (flatten and rank > 2 and kind is not lists):
        raise ConfigurationError(f"{name} are {_described(array)}; allowed are {allowed}")
    tensor, copied, own = kind.to_torch(array, writing=writing)
    if rank <= 2:
        return tensor if tensor.dim() == 2 else tensor[None], copied, own
    try:
        return tensor.view(-1, tensor.shape[-1]), copied, own
    except RuntimeError:
        # Rows whose distances differ.
        return tensor.reshape(-1, tensor.shape[-1]), True, None


def _kind(name: str, array: Any) -> Any:
    """Return the module for the type of an array; if it is an mlx array, mlx is already imported."""
    if type(array) in _KINDS:
        return _KINDS[type(array)]
    for kind, module in [*_KINDS.items()]:
        if isinstance(array, kind):
            return module
    if is_instance(array, "mlx.core", "array"):
        from logitkit_adapters.arrays import mlx_arrays

        _KINDS[type(array)] = mlx_arrays
        return mlx_arrays
    if is_instance(array, "jax", "Array"):
        from logitkit_adapters.arrays import jax_arrays

        _KINDS[type(array)] = jax_arrays
        return jax_arrays
    raise ConfigurationError(
        f"{name} are {_described(array)}; supported are numpy.ndarray, torch.Tensor, jax.Array, mlx.core.array and list"
    )


def _same_memory(one: Tensor, other: Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and one.stride() == other.stride() and one.is_neg() == other.is_neg()


def _shape(array: Any) -> tuple[int, ...]:
    if isinstance(array, list):
        return lists.shape_of(array)
    if isinstance(array, Tensor) and array.is_nested:
        return (array.size(0),)  # rows of different lengths
    shape = getattr(array, "shape", ())
    return tuple(shape) if isinstance(shape, Iterable) else ()


def _described(array: Any) -> str:
    kind = f"{type(array).__module__}.{type(array).__qualname__}".removeprefix("builtins.")
    dtype = getattr(array, "dtype", None)
    return f"{kind} of shape {list(_shape(array))}" + (f" and {dtype}" if dtype is not None else "")


def _both(ids: Any, logits: Any) -> str:
    return f"ids of shape {list(_shape(ids))} and logits of shape {list(_shape(logits))}"
