"""RepetitionPenalty: tokens that have occurred become less likely."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from torch import Tensor

from logitkit.parameters import Number
from logitkit.penalties.history_penalty import HistoryPenalty
from logitkit.penalties.token_history import COUNTED, TokenHistory
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind

__all__ = ["RepetitionPenalty", "RepetitionState"]

# Far beyond every use, and neither a penalty nor its reciprocal overflows in 32 bits.
PENALTY = Number(1e-4, 1e4, "1 changes nothing")


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

    kind = Kind(
        "repetition_penalty",
        {"penalty": PENALTY, **COUNTED},
        main="penalty",
        order=10,
        neutral={"penalty": 1.0, "window": 1, "include_prompt": False},
    )
    may_empty_rows = False

    def init_state(self, context: Context) -> RepetitionState:
        """Return the initial state of the rows."""
        return RepetitionState(self.history(context), per_row(context, self.penalty))

    def _changed(self, given: Any, penalty: Any, where: Callable[..., Any]) -> Any:
        return where(given < 0, given * penalty, given / penalty)
