"""The candidates of llama.cpp as an array, without the copies that llama-cpp-python makes at every token.

llama-cpp-python creates a record array for each token, and copies the logits that a processor returns over the given ones,
which are the same if a hook works in place. That takes longer than a hook of logitkit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

__all__ = ["CANDIDATE", "Candidates", "call_instead"]

CANDIDATE = np.dtype([("id", np.intc), ("logit", np.single), ("p", np.single)], align=True)


class Candidates:
    """A view of the candidates' logits, kept as long as their memory does not move."""

    def __init__(self) -> None:
        self._place: tuple[int, int] | None = None
        self._logits = np.zeros(0, np.float32)

    def logits(self, given: Any) -> NDArray[np.float32]:
        """Return the logits, [V], in llama.cpp's memory, which is valid only during its call.

        Args:
            given: The argument of a sampler in llama.cpp, a pointer to a `llama_token_data_array`.
        """
        array = given.contents
        place = ctypes.addressof(array.data.contents), array.size
        if place != self._place:
            address, size = place
            memory = (llama_cpp.llama_token_data * size).from_address(address)
            self._logits, self._place = np.frombuffer(memory, CANDIDATE)["logit"], place
        return self._logits


def call_instead(sampler: Any, processors: list[Any], apply: Callable[[Any], None]) -> None:
    """Make a `LlamaSampler` call a function with its candidates instead of a list of processors, from the next token on.

    If the sampler does anything else there, as with a caller's own subclass of `Llama`, nothing changes.

    Args:
        sampler: The sampler of the generation.
        processors: The list that the sampler was given.
        apply: The function to call instead of the list.
    """
    match getattr(sampler, "custom_samplers", None):
        case [(_, one)]:
            function = getattr(one, "apply_func", None)
            cells = getattr(function, "__closure__", None) or ()
            own = getattr(function, "__module__", None) == llama_cpp.Llama.__module__
            if own and any(cell.cell_contents is processors for cell in cells):
                one.apply_func = apply
