"""Conversion between arrays of every engine and torch tensors, without a copy if their memory allows it.

conversion      logits_to_torch, ids_to_torch and call_to_torch: the entry points for hooks
torch_tensors, numpy_arrays, mlx_arrays, jax_arrays   one array type each
mlx_masks       masks computed in mlx
array_memory    lists of numbers, and whether two arrays share memory
"""

from logitkit_adapters.arrays.conversion import Ids as Ids
from logitkit_adapters.arrays.conversion import Logits as Logits
from logitkit_adapters.arrays.conversion import Returned as Returned
from logitkit_adapters.arrays.conversion import call_to_torch as call_to_torch
from logitkit_adapters.arrays.conversion import ids_to_torch as ids_to_torch
from logitkit_adapters.arrays.conversion import logits_to_torch as logits_to_torch

__all__ = ["Ids", "Logits", "Returned", "call_to_torch", "ids_to_torch", "logits_to_torch"]
