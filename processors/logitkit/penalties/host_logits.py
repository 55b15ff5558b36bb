"""A few logits of a row, read and written on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.errors import VocabularyError
from logitkit.penalties.finite import finite_rows

__all__ = ["HostLogits"]

# Minus infinity, as the bits of the dtypes that numpy moves as bits.
NEVER = {torch.float16: -1024, torch.bfloat16: -128}


@dataclass(frozen=True, slots=True)
class HostLogits:
    """Logits on the CPU, of which those of some tokens are changed in place: numpy does so several times faster than torch.

    Args:
        array: [B, V], sharing memory with the logits; the bits as int16 for dtypes of 16 bits.
        dtype: The dtype of the logits.
    """

    array: NDArray[Any]
    dtype: torch.dtype

    @classmethod
    def of(cls, logits: Tensor) -> HostLogits:
        """Look at logits, [B, V] floating point on the CPU."""
        # numpy has no bfloat16, but can move its bits.
        narrow = logits.dtype.itemsize == 2
        array = logits.detach().view(torch.int16).numpy() if narrow else logits.detach().numpy()
        return cls(array, logits.dtype)

    def read(self, row: int, ids: NDArray[Any]) -> NDArray[Any]:
        """Return the logits of token ids, [N] integers, in 32 bits at least.

        Raises:
            VocabularyError: A token is none of the columns.
        """
        try:
            # `take` would copy the whole of a row that is no block of memory, such as one of llama.cpp.
            said = self.array[row][ids]
        except IndexError:
            raise self._stranger(row, ids) from None
        wide: NDArray[Any] = torch.from_numpy(said).view(self.dtype).float().numpy() if self._narrow else said
        return wide

    def write(self, row: int, ids: NDArray[Any], said: NDArray[Any], changed: NDArray[Any]) -> None:
        """Write what `read` gave for the ids back, changed; what was finite stays finite."""
        changed = finite_rows(said, changed, torch.finfo(self.dtype).max)
        if self._narrow:
            changed = torch.from_numpy(changed).to(self.dtype).view(torch.int16).numpy()
        self.array[row][ids] = changed

    def ban(self, row: int, ids: NDArray[Any]) -> None:
        """Set the logits of token ids, [N] integers, to -inf.

        Raises:
            VocabularyError: A token is none of the columns.
        """
        try:
            self.array[row][ids] = NEVER.get(self.dtype, -np.inf)
        except IndexError:
            raise self._stranger(row, ids) from None

    def _stranger(self, row: int, ids: NDArray[Any]) -> VocabularyError:
        return VocabularyError(
            f"row {row} has the token {ids.max()}, but the logits have {self.array.shape[1]} columns: they belong "
            "to another model"
        )

    @property
    def _narrow(self) -> bool:
        return self.array.dtype == np.int16
