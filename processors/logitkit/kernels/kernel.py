"""A kernel of Triton: compiled for few variants, and started with little work for the host.

Triton's own launch looks at every argument, which takes the host 25 us. For an integer that is 1 or divisible by 16, it compiles
the kernel again, which takes seconds at unexpected times. A kernel here is compiled once for each *variant*: the constants, and
the types of those arguments that may have several. The caller names the variant, and the compiled kernel is started directly.

By hand: `add(x, n, BLOCK)` has two variants for a block size if `x` is float32 or float16, whatever `n` is.
"""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from logitkit.kernels.language import is_installed, triton
from logitkit.kernels.records import KernelTables
from logitkit.kernels.switch import INSTEAD

__all__ = ["OPTIONS", "Argument", "Kernel", "kernel", "token_arguments"]

# An argument of a kernel: a tensor, a number, or None for a tensor that is not there.
Argument = Tensor | int | None

# A product is rounded before something is added to it, as in tensor operations. Otherwise the compiler may join both operations,
# and do so in one kernel only of several that must find the same number.
OPTIONS = {"enable_fp_fusion": False}


class Kernel:
    """A kernel, with its compiled variants. Thread-safe.

    Args:
        function: Its code. Integers are annotated with their type, and constants, which come last, with `tl.constexpr`.
    """

    # Triton's compiler is not documented as thread-safe.
    _turn = threading.Lock()

    def __init__(self, function: Callable[..., None]) -> None:
        self.name = function.__name__
        self.__doc__ = function.__doc__
        if is_installed:
            parameters = inspect.signature(function).parameters.values()
            given = [parameter.name for parameter in parameters if "constexpr" not in str(parameter.annotation)]
            self.jit: Any = triton.jit(function, do_not_specialize=given)
        # By device, types and constants: the compiled kernel, or None where it could not be compiled.
        self._compiled: dict[Hashable, Any] = {}

    def launch(
        self,
        device: torch.device,
        grid: tuple[int, int],
        tables: KernelTables | None,
        arguments: Sequence[Argument],
        constants: tuple[float, ...],
        types: tuple[Hashable, ...],
        warps: int,
    ) -> bool:
        """Start the kernel, without waiting for it.

        Args:
            device: The device of all tensors, for which `runs_on` is true.
            grid: The number of programs in each direction; none may be 0.
            tables: The tables of a registry, which a kernel that reads any takes first, with their sizes.
            arguments: All other arguments but the constants, in order.
            constants: The constants, in order.
            types: The types of the arguments that vary with the same constants, such as the dtype of logits.
            warps: Warps in a program: always the same with the same constants and types.

        Returns:
            Whether it was started. If not, the caller runs tensor operations.
        """
        if tables is not None and not tables.fit:
            return False
        key = device, types, constants
        if key not in self._compiled:
            given = arguments if tables is None else (tables.records, *tables.sizes, *arguments)
            return self._first(key, grid, given, warps)
        compiled = self._compiled[key]
        if compiled is None:
            return False
        # Numbers in place of tensors: Triton would ask each of them for its address, and CUDA what the address is.
        numbers = [argument.data_ptr() if type(argument) is Tensor else argument for argument in arguments]
        first = () if tables is None else (tables.addresses, *tables.sizes)
        with nullcontext() if torch.cuda.current_device() == device.index else torch.cuda.device(device):
            compiled[*grid, 1](*first, *numbers, *constants)
        return True

    def _first(self, key: Any, grid: tuple[int, int], arguments: Sequence[Any], warps: int) -> bool:
        """Compile a variant and start it."""
        device, _, constants = key
        # In tests, Triton's interpreter runs kernels on a CPU.
        on_gpu = device.type == "cuda"
        if on_gpu and torch.cuda.is_current_stream_capturing():
            # CUDA loads no code while it captures. The graph gets the tensor operations.
            return False
        with self._turn, torch.cuda.device(device) if on_gpu else nullcontext():
            try:
                compiled = self.jit[grid](*arguments, *constants, num_warps=warps, **OPTIONS)
            except Exception as error:  # noqa: BLE001 - whatever Triton lacks, such as a C compiler: the caller goes on
                warnings.warn(
                    f"Triton could not run {self.name} ({type(error).__name__}: {str(error)[:200]}); {INSTEAD}",
                    RuntimeWarning,
                    stacklevel=4,
                )
                self._compiled[key] = None
                return False
        if compiled is not None:  # Triton's interpreter compiles nothing
            self._compiled[key] = compiled
        return True


def kernel(function: Callable[..., None]) -> Kernel:
    """Make a kernel; see `Kernel`."""
    return Kernel(function)


def token_arguments(tokens: Tensor | None) -> tuple[Argument, ...]:
    """Return tokens as kernels take them: as int64, their number in each row, and the strides of rows and columns.

    Args:
        tokens: [B] or [B, T] integers; None: no token is committed.
    """
    if tokens is None:
        return None, 0, 0, 0
    columns = (tokens if tokens.dim() == 2 else tokens[:, None]).to(torch.int64)
    return columns, columns.shape[1], *columns.stride()
