"""The candidates of llama.cpp as an array, without what llama-cpp-python makes anew at every token for the same.

For each token it makes a record array, and copies the logits that a processor returns over those that it was given, which are the
same where a hook works in place. That takes longer than a hook of logitkit does.
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
    """Views the logits of candidates, and keeps the view as long as they lie where they lay."""

    def __init__(self) -> None:
        self._place: tuple[int, int] | None = None
        self._logits = np.zeros(0, np.float32)

    def logits(self, given: Any) -> NDArray[np.float32]:
        """Return the logits, [V], on the memory of llama.cpp, which has it for no longer than its call.

        Args:
            given: What llama.cpp calls a sampler with, a pointer to a `llama_token_data_array`.
        """
        array = given.contents
        place = ctypes.addressof(array.data.contents), array.size
        if place != self._place:
            address, size = place
            memory = (llama_cpp.llama_token_data * size).from_address(address)
            self._logits, self._place = np.frombuffer(memory, CANDIDATE)["logit"], place
        return self._logits


def call_instead(sampler: Any, processors: list[Any], apply: Callable[[Any], None]) -> None:
    """Have a `LlamaSampler` call a function with its candidates where it calls a list of processors, from the next token on.

    Where it does anything else there, as a `Llama` of the caller's may make it do, all stays as it is.

    Args:
        sampler: Of the generation.
        processors: The list that it was given.
        apply: What to call in place of all of them.
    """
    match getattr(sampler, "custom_samplers", None):
        case [(_, one)]:
            function = getattr(one, "apply_func", None)
            cells = getattr(function, "__closure__", None) or ()
            own = getattr(function, "__module__", None) == llama_cpp.Llama.__module__
            if own and any(cell.cell_contents is processors for cell in cells):
                one.apply_func = apply
