"""TopP: nucleus sampling."""

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

__all__ = ["TopP", "TopPState"]

P = Number(0, 1, "1 changes nothing")


class TopPState(NamedTuple):
    """The probability that each row keeps.

    Args:
        p: [B] float64, from 0 to 1; 1 keeps all tokens.
        keep: [B] int64, the minimum number of tokens to keep.
    """

    p: Annotated[Tensor, P]
    keep: Annotated[Tensor, AT_LEAST]


@dataclass(frozen=True)
class TopP(Truncation[TopPState]):
    """Keep the most likely tokens whose probabilities add up to at least p; set all others to -inf.

    If only some of several equally likely tokens are needed, it keeps those with the highest ids.

    Args:
        p: From 0 (which keeps only the best token) to 1 (which changes nothing).
        min_tokens_to_keep: Keep at least this many of the best tokens; from 1.

    Raises:
        ConfigurationError: An argument is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> nucleus = lk.TopP(0.7)
        >>> context = lk.Context.of([[]], vocabulary_size=3)
        >>> logits = torch.tensor([[0.5, 0.2, 0.3]]).log()
        >>> nucleus.process_logits(nucleus.init_state(context), logits, context)[1].exp()
        tensor([[0.5000, 0.0000, 0.3000]])

    Source: Holtzman et al., The Curious Case of Neural Text Degeneration (2019). The results are those of transformers'
    TopPLogitsWarper in float32, except that it sorts tied tokens in no particular order. On a GPU, sums round in another way.
    """

    p: float
    min_tokens_to_keep: int = 1

    kind = Kind("top_p", {"p": P, "min_tokens_to_keep": AT_LEAST}, main="p", order=40, neutral={"p": 1.0})
    may_empty_rows = False

    def init_state(self, context: Context) -> TopPState:
        """Return the initial state of the rows."""
        return TopPState(per_row(context, self.p), per_row(context, self.min_tokens_to_keep))

    def _active(self, p: Any, columns: int) -> Any:
        return p < 1

    def _by_tensors(self, state: TopPState, logits: Tensor) -> Tensor:
        scores = scores_of(logits)
        rising, order = scores.sort(dim=1, stable=True)
        unlikely = rising.softmax(1).cumsum(1) <= (1 - state.p).to(scores.dtype)[:, None]
        best = torch.arange(scores.shape[1], device=scores.device) >= scores.shape[1] - state.keep[:, None]
        return remove(logits, in_place_of(order, unlikely & ~best), self._active(state.p, logits.shape[1]))

    def _stage(self, state: TopPState) -> Stage | None:
        from logitkit.kernels.truncation_step import Rule, TruncationStage

        return TruncationStage(Rule.TOP_P, state.p, state.keep)

    def _kept(self, row: HostRow, p: float, least: int) -> NDArray[np.intp]:
        """Return the ids to keep; the others have at most the probability 1 - p together.

        Only values are sorted, which numpy does many times faster than torch sorts values and indices. The last bits of the
        sums of a softmax depend on the order, and so does the cut. This is the order of the reference.
        """
        scores, spared = row.scores, 1 - p
        rising = np.sort(scores)
        sums = torch.from_numpy(rising).softmax(0).cumsum(0).numpy()
        gone = max(0, min(int(np.searchsorted(sums, sums.dtype.type(spared), "right")), len(scores) - least))
        cut = rising[gone]
        ids = np.flatnonzero(scores >= cut)
        tied = gone - int(np.searchsorted(rising, cut))
        return ids if tied == 0 else np.delete(ids, np.flatnonzero(scores[ids] == cut)[:tied])
