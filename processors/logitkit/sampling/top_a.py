"""TopA: keep the tokens whose probability is at least a share of the square of the highest."""

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
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostRow, Truncation
from logitkit.sampling.scores import AT_LEAST, at_least, at_least_tensors, minimum, remove, scores_of

if TYPE_CHECKING:
    from logitkit.kernels.stages import Stage

__all__ = ["TopA", "TopAState"]

A = Number(0, 1, "0 changes nothing")


class TopAState(NamedTuple):
    """The threshold of each row.

    Args:
        a: [B] float64, from 0 to 1; 0 keeps all tokens.
        keep: The minimum number of tokens to keep; see `minimum`.
    """

    a: Annotated[Tensor, A]
    keep: Annotated[Tensor, Fill(1), AT_LEAST]


@dataclass(frozen=True)
class TopA(Truncation[TopAState]):
    """Keep the tokens whose probability is at least `a` times the square of the highest; set all others to -inf.

    The threshold adapts to the model's confidence: if the best token has the probability 0.9, others need 0.81 · a; if it has
    0.1, they need 0.01 · a. In the canonical order it comes directly after `TopK`, as in KoboldAI. The order matters: a
    truncation raises the probabilities of the tokens that are left, and with them this threshold.

    Args:
        a: From 0 (which changes nothing) to 1.
        min_tokens_to_keep: Keep at least this many of the best tokens, those with lower ids if they tie; from 1.

    Raises:
        ConfigurationError: An argument is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> likely = lk.TopA(0.9)
        >>> context = lk.Context.of([[]], vocabulary_size=3)
        >>> logits = torch.tensor([[0.5, 0.2, 0.3]]).log()
        >>> likely.process_logits(likely.init_state(context), logits, context)[1].exp()
        tensor([[0.5000, 0.0000, 0.3000]])

    Source: Top-A sampling, introduced by RWKV-LM and KoboldAI. The formula is that of KoboldAI's warper, in float32.
    """

    a: float
    min_tokens_to_keep: int = 1

    kind = Kind("top_a", {"a": A, "min_tokens_to_keep": AT_LEAST}, main="a", order=15, neutral={"a": 0.0})
    may_empty_rows = False

    def init_state(self, context: Context) -> TopAState:
        """Return the initial state of the rows."""
        return TopAState(per_row(context, self.a), minimum(context, self.min_tokens_to_keep))

    def _active(self, a: Any, columns: int) -> Any:
        return a > 0

    def _by_tensors(self, state: TopAState, logits: Tensor) -> Tensor:
        scores = scores_of(logits)
        chance = scores.softmax(1)
        best = chance.amax(1, keepdim=True)
        unlikely = chance < best * best * state.a.to(chance.dtype)[:, None]
        return remove(logits, at_least_tensors(unlikely, scores, state.keep), self._active(state.a, logits.shape[1]))

    def _stage(self, state: TopAState) -> Stage | None:
        from logitkit.kernels.share_step import ShareStage

        # To keep more than the best token takes an order of all.
        return None if state.keep.shape[1] else ShareStage(state.a, squared=True)

    def _kept(self, row: HostRow, share: float, keep: list[int]) -> NDArray[np.intp]:
        """Return the ids that pass the threshold."""
        chance = torch.from_numpy(row.scores).softmax(0).numpy()
        best = chance.max()
        return at_least(np.flatnonzero(chance >= best * best * chance.dtype.type(share)), row.scores, keep)
