"""TypicalP: locally typical sampling."""

from __future__ import annotations

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
from logitkit.runtime.host_logits import HostRow, Truncation
from logitkit.sampling.scores import AT_LEAST, in_place_of, remove, scores_of

if TYPE_CHECKING:
    from logitkit.kernels.stages import Stage

__all__ = ["TypicalP", "TypicalPState"]

# 32-bit sums of probabilities cannot resolve less.
P = Number(1e-6, 1, "1 changes nothing")


class TypicalPState(NamedTuple):
    """The probability that each row keeps.

    Args:
        p: [B] float64, from 1e-6 to 1; 1 keeps all tokens.
        keep: [B] int64, the minimum number of tokens to keep.
    """

    p: Annotated[Tensor, P]
    keep: Annotated[Tensor, AT_LEAST]


@dataclass(frozen=True)
class TypicalP(Truncation[TypicalPState]):
    """Keep the tokens whose information content is closest to the entropy, up to the probability p; set all others to -inf.

    The most likely token may be removed. All tokens that tie with the last one are kept.

    Args:
        p: From 1e-6 to 1 (which changes nothing).
        min_tokens_to_keep: Keep at least this many of the most typical tokens; from 1.

    Raises:
        ConfigurationError: An argument is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> typical = lk.TypicalP(0.2)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
        >>> typical.process_logits(typical.init_state(context), logits, context)[1].exp()
        tensor([[0.0000, 0.3000, 0.0000, 0.0000]])

    Source: Meister et al., Locally Typical Sampling (2022). The results are those of transformers' TypicalLogitsWarper in
    float32, except that the entropy is summed in 64 bits, which may matter if two tokens are equally typical up to rounding.
    """

    p: float
    min_tokens_to_keep: int = 1

    kind = Kind("typical_p", {"p": P, "min_tokens_to_keep": AT_LEAST}, main="p", order=30, neutral={"p": 1.0})
    may_empty_rows = False

    def init_state(self, context: Context) -> TypicalPState:
        """Return the initial state of the rows."""
        return TypicalPState(per_row(context, self.p), per_row(context, self.min_tokens_to_keep))

    def _active(self, p: Any, columns: int) -> Any:
        return p < 1

    def _by_tensors(self, state: TypicalPState, logits: Tensor) -> Tensor:
        scores = scores_of(logits)
        last = scores.shape[1] - 1
        rising, order = _distance_to_entropy(scores).sort(dim=1, stable=True)
        sums = scores.gather(1, order).softmax(1).cumsum(1)
        reached = (sums < state.p.to(sums.dtype)[:, None]).sum(1, keepdim=True).clamp(max=last)
        surplus = torch.arange(last + 1, device=scores.device) >= state.keep[:, None]
        removed = in_place_of(order, (rising > rising.gather(1, reached)) & surplus)
        return remove(logits, removed, self._active(state.p, logits.shape[1]))

    def _stage(self, state: TypicalPState) -> Stage | None:
        from logitkit.kernels.truncation_step import Rule, TruncationStage

        return TruncationStage(Rule.TYPICAL_P, state.p, state.keep)

    def _kept(self, row: HostRow, mass: float, least: int) -> NDArray[np.intp]:
        """Return the ids to keep."""
        scores = row.scores
        given = torch.from_numpy(scores)
        distance = _distance_to_entropy(given[None])[0].numpy()
        order = _stable_order(distance)
        sums = given[torch.from_numpy(order)].softmax(0).cumsum(0).numpy()
        reached = min(int(np.searchsorted(sums, sums.dtype.type(mass))), len(scores) - 1)
        count = int(np.searchsorted(distance[order], distance[order[reached]], "right"))
        return order[: max(count, least)]


def _distance_to_entropy(scores: Tensor) -> Tensor:
    """Return how far the information content of each token is from the entropy of its row."""
    log_chance = scores.log_softmax(1)
    # Summed in 64 bits, so that the last bit does not depend on the number of threads or on other rows.
    entropy = -(log_chance * log_chance.exp()).nansum(1, keepdim=True, dtype=torch.float64).to(scores.dtype)
    return (-log_chance - entropy).abs()


def _stable_order(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Return the indices that sort numbers from 0 up; equal numbers stay in order."""
    if numbers.dtype != np.float32:
        return np.argsort(numbers, kind="stable")
    # The bits of these floats sort like the floats, and numpy sorts integers much faster than it finds an order.
    keys = numbers.view(np.uint32).astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= np.arange(len(numbers), dtype=np.uint64)
    keys.sort()
    keys &= np.uint64(0xFFFFFFFF)
    return keys.view(np.int64)
