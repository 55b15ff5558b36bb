"""Logits and token ids of any engine as torch tensors, and logits back as what they were.

numpy arrays, torch tensors, mlx arrays and lists, `[N]`, `[1, N]` or `[B, N]`. Memory is shared wherever it may be written to
without harm, and every call says whether it copied.

| logits in | to torch | back |
|---|---|---|
| numpy | shared, with any positive strides | the array itself |
| numpy: read-only, big-endian, misaligned, with negative or overlapping strides | copied | a new array (copied if big-endian) |
| torch | shared, on its device | the tensor itself |
| torch: requires grad, is expanded, only marked as negated, or an inference tensor outside of that mode | copied | a new tensor |
| mlx | copied, for other mlx arrays may yet be computed from it | the copy, as an mlx array |
| list | copied | a new list of floats, copied |

A result that is another tensor than the one given out comes back on its own memory in numpy and torch, copied only if that
memory does not hold each of its values once (expanded, or marked as negated); mlx, which takes no foreign memory, copies. Token
ids are only read, so those of mlx are shared too.

Subclasses: a `numpy.memmap` and a subclass of `torch.Tensor` come back themselves where they are shared, and new memory, which no
file or class knows of, as `numpy.ndarray` and `torch.Tensor`. Other subclasses of arrays and lists, and tensors that compute by
themselves, are refused, for they mean more than their values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit_adapters.array_kinds import lists, numpy_arrays, torch_tensors
from logitkit_adapters.tokenizer_bytes.loaded_class import is_instance

__all__ = ["Ids", "Logits", "Returned", "call_to_torch", "ids_to_torch", "logits_to_torch"]

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Ids(NamedTuple):
    """Token ids as a tensor, to be read only.

    Args:
        tensor: [B, L] int32 or int64.
        copied: Whether it has memory of its own.
    """

    tensor: Tensor
    copied: bool


class Returned(NamedTuple):
    """Logits as their engine has them.

    Args:
        array: Of the container, dtype and shape that was given.
        copied: Whether values were copied on the way back.
    """

    array: Any
    copied: bool


@dataclass(frozen=True, slots=True, eq=False)
class Logits:
    """Logits as a tensor, to be written to, and the way back; `logits_to_torch` makes it.

    Args:
        tensor: [B, V] floating point.
        copied: Whether it has memory of its own, so that the engine's array stays as it is.
        given: The engine's array.
        own: The array, of the engine's kind, on whose memory the tensor lies; None if there is none.
    """

    tensor: Tensor
    copied: bool
    given: Any
    own: Any

    def back(self, processed: Tensor) -> Returned:
        """Return processed logits in the container, dtype and shape that was given; the tensor must not be written to after that.

        Args:
            processed: The tensor itself, or another of its shape, dtype and device.

        Raises:
            ConfigurationError: The shape, the dtype or the device is another.
        """
        tensor = self.tensor
        if processed is tensor and self.own is not None:
            return Returned(self.own, False)
        if not isinstance(processed, Tensor):
            raise ConfigurationError(f"the processed logits are {_described(processed)}; return a torch.Tensor")
        if processed.device != tensor.device:
            raise ConfigurationError(
                f"the processed logits {list(processed.shape)} are on {processed.device}, but those given are on "
                f"{tensor.device}; return them on the same device"
            )
        if processed.shape != tensor.shape or processed.dtype != tensor.dtype:
            raise ConfigurationError(
                f"the processed logits are {list(processed.shape)} of {processed.dtype}, but those given are "
                f"{list(tensor.shape)} of {tensor.dtype}; return the same shape and dtype"
            )
        if self.own is not None and _same_memory(processed, tensor):
            return Returned(self.own, False)
        return Returned(*_kind("logits", self.given).from_torch(processed, self.given))


def logits_to_torch(logits: Any) -> Logits:
    """Take logits of an engine as a tensor that may be written to.

    Args:
        logits: [V], [1, V] or [B, V] floating point (bfloat16 too), in numpy, torch or mlx; or a list of numbers, or of such
            lists, which become float64.

    Returns:
        The tensor, [B, V], whether it is a copy, and the way back.

    Raises:
        ConfigurationError: The type, the dtype or the number of dimensions is another, or a list is ragged.

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
    tensor, copied, own = _rows("logits", logits, "[V], [1, V] or [B, V]", writing=True)
    if tensor.dtype not in FLOATS:
        raise ConfigurationError(f"logits are {_described(logits)}; they need floating point of 16, 32 or 64 bits")
    return Logits(tensor, copied, logits, own)


def ids_to_torch(ids: Any) -> Ids:
    """Take token ids of an engine as a tensor that is read only.

    Args:
        ids: [L], [1, L] or [B, L] integers in numpy, torch or mlx, or in a list or a list of lists.

    Returns:
        The tensor, [B, L], and whether it is a copy: ids that are not int32 or int64 are.

    Raises:
        ConfigurationError: The type or the number of dimensions is another, these are no integers, or a list is ragged.

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
    """Take what an engine gives to its hook: the ids of each row, and its logits.

    Args:
        ids: [L], [1, L] or [B, L]; see `ids_to_torch`.
        logits: [V], [1, V] or [B, V]; see `logits_to_torch`.

    Returns:
        Both, with equal numbers of rows.

    Raises:
        BatchMismatch: There are not as many rows of ids as of logits.
        ConfigurationError: One of them is refused. Either message names the shapes of both.

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
        raise BatchMismatch(f"the call has {_both(ids, logits)}; give as many rows of ids as of logits")
    return shown, taken


def _rows(name: str, array: Any, allowed: str, *, writing: bool) -> tuple[Tensor, bool, Any]:
    kind = _kind(name, array)
    if (array.ndim if kind is numpy_arrays else len(_shape(array))) not in (1, 2):
        raise ConfigurationError(f"{name} are {_described(array)}; allowed are {allowed}")
    tensor, copied, own = kind.to_torch(array, writing=writing)
    return tensor if tensor.dim() == 2 else tensor[None], copied, own


def _kind(name: str, array: Any) -> Any:
    """Return the module for the container of an array; mlx is imported already where there is an array of it."""
    if isinstance(array, Tensor):
        return torch_tensors
    if isinstance(array, np.ndarray):
        return numpy_arrays
    if isinstance(array, list):
        return lists
    if is_instance(array, "mlx.core", "array"):
        from logitkit_adapters.array_kinds import mlx_arrays

        return mlx_arrays
    raise ConfigurationError(
        f"{name} are {_described(array)}; supported are numpy.ndarray, torch.Tensor, mlx.core.array and list"
    )


def _same_memory(one: Tensor, other: Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and one.stride() == other.stride() and one.is_neg() == other.is_neg()


def _shape(array: Any) -> tuple[int, ...]:
    if isinstance(array, list):
        return lists.shape_of(array)
    if isinstance(array, Tensor) and array.is_nested:
        return (array.size(0),)  # rows of several lengths
    shape = getattr(array, "shape", ())
    return tuple(shape) if isinstance(shape, Iterable) else ()


def _described(array: Any) -> str:
    kind = f"{type(array).__module__}.{type(array).__qualname__}".removeprefix("builtins.")
    dtype = getattr(array, "dtype", None)
    return f"{kind} of shape {list(_shape(array))}" + (f" and {dtype}" if dtype is not None else "")


def _both(ids: Any, logits: Any) -> str:
    return f"ids of shape {list(_shape(ids))} and logits of shape {list(_shape(logits))}"
