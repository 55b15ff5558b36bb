"""Only the likeliest tokens that together have so much probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.parameters import Number
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import Described
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.runtime.host_logits import host_rows
from logitkit.sampling.scores import AT_LEAST, in_place_of, remove, scores_of

__all__ = ["TopP", "TopPState"]

P = Number(0, 1, "1 changes nothing")


class TopPState(NamedTuple):
    """How much probability each row keeps.

    Args:
        p: [B] float64, from 0 to 1; 1 keeps all.
        keep: [B] int64, tokens to keep at least.
    """

    p: Annotated[Tensor, P]
    keep: Annotated[Tensor, AT_LEAST]


@dataclass(frozen=True)
class TopP(Described):
    """Keep the fewest of the likeliest tokens that have the probability p together; set all others to -inf.

    Of equally likely tokens, of which only some are needed, those with the greater ids are kept.

    Args:
        p: From 0 (which keeps the best only) to 1 (which changes nothing).
        min_tokens_to_keep: Keep so many of the best at least; from 1.

    Raises:
        ConfigurationError: An argument is not of its range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> nucleus = lk.TopP(0.7)
        >>> context = lk.Context.of([[]], vocabulary_size=3)
        >>> logits = torch.tensor([[0.5, 0.2, 0.3]]).log()
        >>> nucleus.process_logits(nucleus.init_state(context), logits, context)[1].exp()
        tensor([[0.5000, 0.0000, 0.3000]])

    Source: Holtzman et al., The Curious Case of Neural Text Degeneration (2019); results are those of transformers'
    TopPLogitsWarper in float32, which sorts the ties that it splits in no certain order.
    """

    p: float
    min_tokens_to_keep: int = 1

    role = Role.TRUNCATION
    kind = Kind("top_p", {"p": P, "min_tokens_to_keep": AT_LEAST}, main="p", order=40, neutral={"p": 1.0})
    may_empty_rows = False

    def init_state(self, context: Context) -> TopPState:
        """Return the state of rows that have their prompt."""
        rows, device = context.batch_size, context.device
        return TopPState(
            torch.full((rows,), self.p, dtype=torch.float64, device=device),
            torch.full((rows,), self.min_tokens_to_keep, dtype=torch.int64, device=device),
        )

    def advance(self, state: TopPState, tokens: Tensor) -> TopPState:
        """Return the state, which stays as it is."""
        check_tokens("TopP", state.p.shape[0], tokens)
        return state

    def process_logits(self, state: TopPState, logits: Tensor, context: Context) -> tuple[TopPState, Tensor]:
        """Keep the likeliest tokens, in place on the CPU."""
        logits = own_rows("TopP", state.p.shape[0], logits)
        if by_tensors(logits):
            return state, _by_tensors(state, logits)
        numbers, least = state.p.tolist(), state.keep.tolist()
        for number, row in host_rows(logits, [p < 1 for p in numbers]):
            row.keep(_nucleus(row.scores, 1 - numbers[number], least[number]))
        return state, logits


def _by_tensors(state: TopPState, logits: Tensor) -> Tensor:
    scores = scores_of(logits)
    rising, order = scores.sort(dim=1, stable=True)
    unlikely = rising.softmax(1).cumsum(1) <= (1 - state.p).to(scores.dtype)[:, None]
    best = torch.arange(scores.shape[1], device=scores.device) >= scores.shape[1] - state.keep[:, None]
    return remove(logits, in_place_of(order, unlikely & ~best), state.p < 1)


def _nucleus(scores: NDArray[Any], spared: float, least: int) -> NDArray[np.intp]:
    """Return the ids to keep, when the unlikely ones may have the probability `spared` together.

    Only values are sorted, as numpy does many times faster than torch sorts with the places. The sum of a softmax depends, in its
    last bits, on the order; so does where the cut falls. This is the order of the reference.
    """
    rising = np.sort(scores)
    sums = torch.from_numpy(rising).softmax(0).cumsum(0).numpy()
    gone = max(0, min(int(np.searchsorted(sums, sums.dtype.type(spared), "right")), len(scores) - least))
    cut = rising[gone]
    ids = np.flatnonzero(scores >= cut)
    tied = gone - int(np.searchsorted(rising, cut))
    return ids if tied == 0 else np.delete(ids, np.flatnonzero(scores[ids] == cut)[:tied])
