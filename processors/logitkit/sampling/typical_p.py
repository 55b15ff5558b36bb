"""Only the tokens that say about as much as is to be expected."""

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

__all__ = ["TypicalP", "TypicalPState"]

# A mass of less is no mass in 32 bits.
P = Number(1e-6, 1, "1 changes nothing")


class TypicalPState(NamedTuple):
    """How much probability each row keeps.

    Args:
        p: [B] float64, from 1e-6 to 1; 1 keeps all.
        keep: [B] int64, tokens to keep at least.
    """

    p: Annotated[Tensor, P]
    keep: Annotated[Tensor, AT_LEAST]


@dataclass(frozen=True)
class TypicalP(Described):
    """Keep the tokens whose information is nearest to the entropy, until they have the probability p; set all others to -inf.

    The likeliest token may be among those that go. All that tie with the last one are kept.

    Args:
        p: From 1e-6 to 1 (which changes nothing).
        min_tokens_to_keep: Keep so many of the most typical at least; from 1.

    Raises:
        ConfigurationError: An argument is not of its range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> typical = lk.TypicalP(0.2)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
        >>> typical.process_logits(typical.init_state(context), logits, context)[1].exp()
        tensor([[0.0000, 0.3000, 0.0000, 0.0000]])

    Source: Meister et al., Locally Typical Sampling (2022); results are those of transformers' TypicalLogitsWarper in float32,
    but that the entropy is summed in 64 bits, which may matter where two tokens are typical to within rounding.
    """

    p: float
    min_tokens_to_keep: int = 1

    role = Role.TRUNCATION
    kind = Kind("typical_p", {"p": P, "min_tokens_to_keep": AT_LEAST}, main="p", order=30, neutral={"p": 1.0})
    may_empty_rows = False

    def init_state(self, context: Context) -> TypicalPState:
        """Return the state of rows that have their prompt."""
        rows, device = context.batch_size, context.device
        return TypicalPState(
            torch.full((rows,), self.p, dtype=torch.float64, device=device),
            torch.full((rows,), self.min_tokens_to_keep, dtype=torch.int64, device=device),
        )

    def advance(self, state: TypicalPState, tokens: Tensor) -> TypicalPState:
        """Return the state, which stays as it is."""
        check_tokens("TypicalP", state.p.shape[0], tokens)
        return state

    def process_logits(self, state: TypicalPState, logits: Tensor, context: Context) -> tuple[TypicalPState, Tensor]:
        """Keep the typical tokens, in place on the CPU."""
        logits = own_rows("TypicalP", state.p.shape[0], logits)
        if by_tensors(logits):
            return state, _by_tensors(state, logits)
        masses, least = state.p.tolist(), state.keep.tolist()
        for number, row in host_rows(logits, [p < 1 for p in masses]):
            row.keep(_typical(row.scores, masses[number], least[number]))
        return state, logits


def _by_tensors(state: TypicalPState, logits: Tensor) -> Tensor:
    scores = scores_of(logits)
    last = scores.shape[1] - 1
    rising, order = _unlikeness(scores).sort(dim=1, stable=True)
    sums = scores.gather(1, order).softmax(1).cumsum(1)
    reached = (sums < state.p.to(sums.dtype)[:, None]).sum(1, keepdim=True).clamp(max=last)
    behind = torch.arange(last + 1, device=scores.device) >= state.keep[:, None]
    return remove(logits, in_place_of(order, (rising > rising.gather(1, reached)) & behind), state.p < 1)


def _unlikeness(scores: Tensor) -> Tensor:
    """Return how far the information of each token is from the entropy of its row."""
    log_chance = scores.log_softmax(1)
    # In 64 bits, so that no number of threads, and no other row, decides about the last bit.
    entropy = -(log_chance * log_chance.exp()).nansum(1, keepdim=True, dtype=torch.float64).to(scores.dtype)
    return (-log_chance - entropy).abs()


def _typical(scores: NDArray[Any], mass: float, least: int) -> NDArray[np.intp]:
    """Return the ids to keep."""
    given = torch.from_numpy(scores)
    unlikeness = _unlikeness(given[None])[0].numpy()
    order = _stable_order(unlikeness)
    sums = given[torch.from_numpy(order)].softmax(0).cumsum(0).numpy()
    reached = min(int(np.searchsorted(sums, sums.dtype.type(mass))), len(scores) - 1)
    count = int(np.searchsorted(unlikeness[order], unlikeness[order[reached]], "right"))
    return order[: max(count, least)]


def _stable_order(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Return the order of numbers from 0 up, equal ones by place."""
    if numbers.dtype != np.float32:
        return np.argsort(numbers, kind="stable")
    # The bits of such floats are in their order. numpy sorts integers much faster than it finds an order.
    keys = numbers.view(np.uint32).astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= np.arange(len(numbers), dtype=np.uint64)
    keys.sort()
    keys &= np.uint64(0xFFFFFFFF)
    return keys.view(np.int64)
