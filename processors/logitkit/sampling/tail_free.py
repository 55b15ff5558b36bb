"""TailFree: cut off the tail where the curve of the sorted probabilities has become straight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.parameters import Number
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind
from logitkit.runtime.host_logits import HostRow, Truncation
from logitkit.sampling.scores import AT_LEAST, remove, scores_of

__all__ = ["TailFree", "TailFreeState"]

Z = Number(0, 1, "1 changes nothing")


class TailFreeState(NamedTuple):
    """The part of the curvature that each row keeps.

    Args:
        z: [B] float64, from 0 to 1; 1 keeps all tokens.
        keep: [B] int64, the minimum number of tokens to keep.
    """

    z: Annotated[Tensor, Z]
    keep: Annotated[Tensor, AT_LEAST]


@dataclass(frozen=True)
class TailFree(Truncation[TailFreeState]):
    """Keep the best tokens, up to the part `z` of the curvature of the sorted probabilities; set all others to -inf.

    The curvature at a token is the absolute second difference of the probabilities, in descending order. It is high where
    they fall steeply, and 0 in the tail. All tokens that tie with the last one that is kept stay. If all are equally likely,
    nothing changes.

    Args:
        z: From 0 to 1 (which changes nothing); 0.95 is usual.
        min_tokens_to_keep: Keep at least this many of the best tokens; from 1.

    Raises:
        ConfigurationError: An argument is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> no_tail = lk.TailFree(0.9)
        >>> context = lk.Context.of([[]], vocabulary_size=5)
        >>> # The differences are 0.2, 0.25, 0 and 0.02, so the curvature is 0.05, 0.25 and 0.02.
        >>> logits = torch.tensor([[0.5, 0.3, 0.05, 0.05, 0.03]]).log()
        >>> no_tail.process_logits(no_tail.init_state(context), logits, context)[1].exp()
        tensor([[0.5000, 0.0000, 0.0000, 0.0000, 0.0000]])

    Source: Bricken, Tail Free Sampling (2019). The formula is that of llama.cpp's sampler, which was removed in 2024, but with
    sums of 64 bits, and without a choice between tokens that tie.
    """

    z: float
    min_tokens_to_keep: int = 1

    # Where llama.cpp had it: after TopK, before TypicalP.
    kind = Kind("tail_free", {"z": Z, "min_tokens_to_keep": AT_LEAST}, main="z", order=25, neutral={"z": 1.0})
    may_empty_rows = False

    def init_state(self, context: Context) -> TailFreeState:
        """Return the initial state of the rows."""
        return TailFreeState(per_row(context, self.z), per_row(context, self.min_tokens_to_keep))

    def _active(self, z: Any, columns: int) -> Any:
        return z < 1

    def _by_tensors(self, state: TailFreeState, logits: Tensor) -> Tensor:
        scores = scores_of(logits)
        falling = scores.sort(dim=1, descending=True).values
        last = _count(falling, state.z[:, None], state.keep[:, None]) - 1
        return remove(logits, scores < falling.gather(1, last), self._active(state.z, logits.shape[1]))

    def _kept(self, row: HostRow, z: float, keep: int) -> NDArray[np.intp]:
        """Return the ids to keep."""
        falling = torch.from_numpy(np.sort(row.scores)[::-1].copy())
        count = _count(falling[None], torch.tensor([[z]], dtype=torch.float64), torch.tensor([[keep]]))
        return np.flatnonzero(row.scores >= falling[int(count) - 1].item())


def _count(falling: Tensor, z: Tensor, keep: Tensor) -> Tensor:
    """Return how many of the best tokens of each row stay, [B, 1] int64.

    Args:
        falling: [B, N] scores without NaN, in descending order.
        z: [B, 1] float64.
        keep: [B, 1] int64.
    """
    columns = falling.shape[1]
    if columns < 3:
        return torch.full_like(keep, columns)
    curvature = falling.softmax(1).double().diff(dim=1).diff(dim=1).abs().cumsum(1)
    whole = curvature[:, -1:]
    count = torch.maximum((curvature <= z * whole).sum(1, keepdim=True), keep)
    return torch.where((whole > 0) & (count < columns - 2), count, columns)
