"""Only tokens whose probability is at least a share of the square of the highest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

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
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostRow, host_rows
from logitkit.sampling.scores import AT_LEAST, in_place_of, remove, scores_of

__all__ = ["TopA", "TopAState"]

A = Number(0, 1, "0 changes nothing")


class TopAState(NamedTuple):
    """The threshold of each row.

    Args:
        a: [B] float64, from 0 to 1; 0 keeps all tokens.
        keep: [B, 1] int64, the minimum number of tokens to keep; [B, 0] if it is 1, which needs no sorting because the best
            token always passes the threshold.
    """

    a: Annotated[Tensor, A]
    keep: Annotated[Tensor, Fill(1), AT_LEAST]


@dataclass(frozen=True)
class TopA(Described):
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

    role = Role.TRUNCATION
    kind = Kind("top_a", {"a": A, "min_tokens_to_keep": AT_LEAST}, main="a", order=15, neutral={"a": 0.0})
    may_empty_rows = False

    def init_state(self, context: Context) -> TopAState:
        """Return the initial state of the rows."""
        rows, device, several = context.batch_size, context.device, self.min_tokens_to_keep > 1
        return TopAState(
            torch.full((rows,), self.a, dtype=torch.float64, device=device),
            torch.full((rows, int(several)), self.min_tokens_to_keep, dtype=torch.int64, device=device),
        )

    def advance(self, state: TopAState, tokens: Tensor) -> TopAState:
        """Return the state, which tokens do not change."""
        check_tokens("TopA", state.a.shape[0], tokens)
        return state

    def process_logits(self, state: TopAState, logits: Tensor, context: Context) -> tuple[TopAState, Tensor]:
        """Keep the tokens that pass the threshold, in place on the CPU."""
        logits = own_rows("TopA", state.a.shape[0], logits)
        if by_tensors(logits):
            return state, _by_tensors(state, logits)
        shares = state.a.tolist()
        least = state.keep[:, 0].tolist() if state.keep.shape[1] else [1] * len(shares)
        for number, row in host_rows(logits, [a > 0 for a in shares]):
            row.keep(_likely(row, shares[number], least[number]))
        return state, logits


def _by_tensors(state: TopAState, logits: Tensor) -> Tensor:
    scores = scores_of(logits)
    chance = scores.softmax(1)
    best = chance.amax(1, keepdim=True)
    unlikely = chance < best * best * state.a.to(chance.dtype)[:, None]
    if state.keep.shape[1]:
        order = scores.sort(dim=1, descending=True, stable=True).indices
        surplus = torch.arange(scores.shape[1], device=scores.device) >= state.keep
        unlikely &= in_place_of(order, surplus)
    return remove(logits, unlikely, state.a > 0)


def _likely(row: HostRow, share: float, least: int) -> NDArray[np.intp]:
    """Return the ids that pass the threshold, or the best `least` ids if fewer do."""
    chance = torch.from_numpy(row.scores).softmax(0).numpy()
    best = chance.max()
    ids = np.flatnonzero(chance >= best * best * chance.dtype.type(share))
    return ids if len(ids) >= least else np.argsort(-row.scores, kind="stable")[:least]
