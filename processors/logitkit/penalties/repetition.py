"""RepetitionPenalty, and the base of penalties on all tokens that have occurred."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from logitkit.parameters import Number
from logitkit.penalties.token_history import COUNTED, NOTHING_COUNTED, HistoryProcessor, TokenHistory
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.runtime.host_logits import HostLogits, filled
from logitkit.runtime.tensor_logits import Places, finite_tensors

__all__ = ["HistoryPenalty", "RepetitionPenalty", "RepetitionState", "counts_of"]

S = TypeVar("S", bound=tuple[Any, ...])

# Far beyond every use, and neither a penalty nor its reciprocal overflows in 32 bits.
PENALTY = Number(1e-4, 1e4, "1 changes nothing")


class HistoryPenalty(HistoryProcessor[S]):
    """A penalty on the logit of each token in the history; finite logits stay finite.

    Subclasses define `_changed`. Their states have the fields `history` and `penalty`, [B].
    """

    penalty: float

    role = Role.PENALTY

    # The penalty that changes nothing.
    neutral: ClassVar[float]

    # Whether the penalty is multiplied by how often the token occurs.
    counts = False

    def _changed(self, given: Any, penalty: Any, where: Callable[..., Any]) -> Any:
        """Return the changed logits.

        Args:
            given: The logits of the tokens, an array or a tensor.
            penalty: The penalty of each.
            where: `np.where` or `torch.where`.
        """
        raise NotImplementedError

    def _by_rows(self, state: Any, logits: Tensor) -> Tensor:
        host, tokens, penalty = HostLogits.of(logits), state.history.tokens.numpy(), state.penalty.numpy()
        there = tokens >= 0
        if len(there) > 1:
            there[penalty == self.neutral] = False  # saves the work, and changes no result
        row, places = filled(there)
        ids, amount = tokens[places], penalty[row]
        if not len(ids):
            return logits
        if self.counts:
            pairs, counts = np.unique(np.int64(row) << 32 | ids, return_counts=True)
            row, ids = pairs >> 32, pairs & 0xFFFFFFFF
            amount = penalty[row] * counts.astype(penalty.dtype)
        given = host.read(row, ids)
        with np.errstate(over="ignore"):
            host.write(row, ids, given, self._changed(given, amount.astype(given.dtype), np.where))
        return logits

    def _by_tensors(self, state: Any, logits: Tensor) -> Tensor:
        tokens = state.history.tokens
        if tokens.shape[1] == 0:
            return logits
        ids, _, some = Places.of(tokens, logits.shape[1])
        wide = torch.promote_types(logits.dtype, torch.float32)
        penalty = torch.where(some, state.penalty[:, None], self.neutral)
        if self.counts:
            penalty = penalty * counts_of(ids, tokens)
        given = logits.gather(1, ids).to(wide)
        changed = self._changed(given, penalty.to(wide), torch.where)
        return logits.scatter_(1, ids, finite_tensors(given, changed, logits.dtype))


def counts_of(ids: Tensor, tokens: Tensor) -> Tensor:
    """Return how often each id occurs among the tokens of its row, [B, M] int64.

    Args:
        ids: [B, M] int64.
        tokens: [B, N] int32, in any order; negative numbers mean none.

    Example:
        >>> counts_of(torch.tensor([[7, 8, 9]]), torch.tensor([[9, 7, 9, -1]])).tolist()
        [[1, 0, 2]]
    """
    ordered = tokens.to(torch.int64).sort(1).values
    return torch.searchsorted(ordered, ids, right=True) - torch.searchsorted(ordered, ids)


class RepetitionState(NamedTuple):
    """The tokens of each row, and the penalty on repeating them.

    Args:
        history: The tokens that count.
        penalty: [B] float64, from 1e-4 to 1e4; 1 changes nothing.
    """

    history: TokenHistory
    penalty: Annotated[Tensor, PENALTY]


@dataclass(frozen=True)
class RepetitionPenalty(HistoryPenalty[RepetitionState]):
    """Divide the positive logits of tokens that have occurred, and multiply the negative ones.

    Args:
        penalty: From 1e-4 to 1e4; above 1 discourages repetition, below 1 encourages it, 1 changes nothing.
        window: Count only this many of the last tokens, from 1 to 2**24; None counts all.
        include_prompt: Whether tokens of the prompt count. Padding never does.

    Raises:
        ConfigurationError: The penalty or the window is not a number in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> penalty = lk.RepetitionPenalty(2.0)
        >>> context = lk.Context.of([[1, 2]], vocabulary_size=4)
        >>> penalty.process_logits(penalty.init_state(context), torch.tensor([[4.0, 4.0, -4.0, -4.0]]), context)[1]
        tensor([[ 4.,  2., -8., -4.]])

    Source: Keskar et al., CTRL (2019). The results are those of transformers' RepetitionPenaltyLogitsProcessor.
    """

    penalty: float
    window: int | None = None
    include_prompt: bool = True

    neutral = 1.0
    kind = Kind(
        "repetition_penalty",
        {"penalty": PENALTY, **COUNTED},
        main="penalty",
        order=10,
        neutral={"penalty": neutral, **NOTHING_COUNTED},
    )
    may_empty_rows = False

    def init_state(self, context: Context) -> RepetitionState:
        """Return the initial state of the rows."""
        return RepetitionState(self.history(context), per_row(context, self.penalty))

    def _changed(self, given: Any, penalty: Any, where: Callable[..., Any]) -> Any:
        return where(given < 0, given * penalty, given / penalty)
