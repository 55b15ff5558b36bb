"""The state of `Dry`, and its penalties by length."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.penalties.breakers import Breakers
from logitkit.penalties.token_history import TokenHistory
from logitkit.protocol.state import Fill

__all__ = ["DryState", "penalties_by_length"]

# llama.cpp lets penalties grow up to about the largest 32-bit number. This is its logarithm there.
GREATEST_LOG = 88.7228391

# A penalty that grows slowly does so up to this many tokens, which limits the table of a row.
LONGEST_GROWTH = 4096


class DryState(NamedTuple):
    """The tokens of each row, the breakers, and the penalties.

    Args:
        history: The tokens that count.
        breakers: The breakers.
        penalties: [B, L] float32, the penalty on continuing a repeat, by its length in tokens; ascending.
        longest: [B] int64, the length from which penalties are constant, less than L.
    """

    history: TokenHistory
    breakers: Breakers
    penalties: Annotated[Tensor, Fill(0)]
    longest: Tensor

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        if not bool((self.penalties.isfinite() & (self.penalties >= 0)).all()):
            return "a penalty is not a number from 0"
        allowed = (self.longest >= 0) & (self.longest < self.penalties.shape[1])
        return None if bool(allowed.all()) else "a length has no penalty"


def penalties_by_length(multiplier: float, base: float, allowed_length: int) -> Tensor:
    """Return the penalties by length, [1, L] float32, computed on the host so that all devices use the same bits."""
    multiplier, base = float(np.float32(multiplier)), float(np.float32(base))
    growth = 0
    if base > 1:
        growth = min(int(np.float32(GREATEST_LOG) / np.float32(math.log(base))), LONGEST_GROWTH)
    grown = [min(multiplier * math.pow(base, n), float(np.finfo(np.float32).max)) for n in range(growth + 1)]
    return torch.tensor([[0.0] * allowed_length + grown], dtype=torch.float32)
