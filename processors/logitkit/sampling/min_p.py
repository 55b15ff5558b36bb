"""MinP: keep the tokens that are likely compared with the most likely one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.parameters import Number
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostRow, Truncation
from logitkit.sampling.scores import AT_LEAST, at_least, at_least_tensors, minimum, remove, scores_of

if TYPE_CHECKING:
    from logitkit.kernels.stages import Stage

__all__ = ["MinP", "MinPState"]

P = Number(0, 1, "0 changes nothing")

# More than the rounding error, in 32 bits, of the difference of two logits as the logarithm of a quotient of probabilities.
DOUBT = 1e-3

# Below this, probabilities lose their last bits, so the logits do not decide.
TINY = 1e-20


class MinPState(NamedTuple):
    """The threshold of each row.

    Args:
        p: [B] float64, the required share of the best probability, from 0 to 1; 0 keeps all tokens.
        keep: The minimum number of tokens to keep; see `minimum`.
    """

    p: Annotated[Tensor, P]
    keep: Annotated[Tensor, Fill(1), AT_LEAST]


@dataclass(frozen=True)
class MinP(Truncation[MinPState]):
    """Keep the tokens that are at least p times as likely as the most likely one; set all others to -inf.

    Args:
        p: From 0 (which changes nothing) to 1.
        min_tokens_to_keep: Keep at least this many of the best tokens, those with lower ids if they tie; from 1.

    Raises:
        ConfigurationError: An argument is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> likely = lk.MinP(0.5)
        >>> context = lk.Context.of([[]], vocabulary_size=3)
        >>> logits = torch.tensor([[0.5, 0.2, 0.3]]).log()
        >>> likely.process_logits(likely.init_state(context), logits, context)[1].exp()
        tensor([[0.5000, 0.0000, 0.3000]])

    Source: Nguyen et al., Turning Up the Heat: Min-p Sampling (2024). The results are those of transformers' MinPLogitsWarper in
    float32.
    """

    p: float
    min_tokens_to_keep: int = 1

    kind = Kind("min_p", {"p": P, "min_tokens_to_keep": AT_LEAST}, main="p", order=50, neutral={"p": 0.0})
    may_empty_rows = False

    def init_state(self, context: Context) -> MinPState:
        """Return the initial state of the rows."""
        return MinPState(per_row(context, self.p), minimum(context, self.min_tokens_to_keep))

    def _active(self, p: Any, columns: int) -> Any:
        return p > 0

    def _by_tensors(self, state: MinPState, logits: Tensor) -> Tensor:
        scores = scores_of(logits)
        chance = scores.softmax(1)
        unlikely = chance < state.p.to(chance.dtype)[:, None] * chance.amax(1, keepdim=True)
        return remove(logits, at_least_tensors(unlikely, scores, state.keep), self._active(state.p, logits.shape[1]))

    def _stage(self, state: MinPState) -> Stage | None:
        from logitkit.kernels.share_step import ShareStage

        # To keep more than the best token takes an order of all.
        return None if state.keep.shape[1] else ShareStage(state.p, squared=False)

    def _kept(self, row: HostRow, share: float, keep: list[int]) -> NDArray[np.intp]:
        """Return the ids that are likely enough.

        The logits almost always decide. If rounding might, the probabilities are computed as in the reference.
        """
        cut = row.top + math.log(share)
        ids = np.flatnonzero(row.scores >= cut - DOUBT)
        if share * (1 / len(row.scores)) > TINY and not (row.scores[ids] < cut + DOUBT).any():
            return at_least(ids, row.scores, keep)
        chance = torch.from_numpy(row.scores).softmax(0).numpy()
        return at_least(np.flatnonzero(chance >= chance.dtype.type(share) * chance.max()), row.scores, keep)
