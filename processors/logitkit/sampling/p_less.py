"""PLess: keep the tokens that are at least as likely as a random guess is right, without a number to tune."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from logitkit.parameters import Boolean
from logitkit.protocol.context import Context
from logitkit.protocol.kind import Kind
from logitkit.protocol.state import Fill
from logitkit.sampling.probability_cutoff import ProbabilityCutoff
from logitkit.sampling.scores import AT_LEAST, minimum

__all__ = ["PLess", "PLessState"]


class PLessState(NamedTuple):
    """Which rows are truncated, and how.

    Args:
        enabled: [B] bool; False keeps all tokens.
        relaxed: [B] bool, whether the threshold is the lower one.
        keep: The minimum number of tokens to keep; see `minimum`.
    """

    enabled: Annotated[Tensor, Fill(False)]
    relaxed: Annotated[Tensor, Fill(False)]
    keep: Annotated[Tensor, Fill(1), AT_LEAST]


@dataclass(frozen=True)
class PLess(ProbabilityCutoff[PLessState]):
    """Keep the tokens whose probability is at least the sum of all squared probabilities; set all others to -inf.

    The sum is the probability that two tokens drawn from the distribution are equal. It is 1 if the model is certain, and 1 / V
    if all V tokens are equally likely, so the threshold follows the model without a parameter.

    Args:
        enabled: Whether it changes anything.
        relaxed: Whether the threshold is the lower one of the paper, (V · sum - 1) / (V - 1), "p-less-norm", which keeps more
            tokens. V is the number of columns.

    Raises:
        ConfigurationError: An argument is not a truth value.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> likely = lk.PLess()
        >>> context = lk.Context.of([[]], vocabulary_size=3)
        >>> logits = torch.tensor([[0.5, 0.1, 0.4]]).log()  # 0.25 + 0.01 + 0.16 = 0.42
        >>> likely.process_logits(likely.init_state(context), logits, context)[1].exp()
        tensor([[0.5000, 0.0000, 0.0000]])

    Source: Tan et al., p-less Sampling: A Robust Hyperparameter-Free Approach for LLM Decoding (2025). The sum is computed in 64
    bits.
    """

    enabled: bool = True
    relaxed: bool = False

    kind = Kind(
        "p_less",
        {"enabled": Boolean(), "relaxed": Boolean()},
        main="enabled",
        order=56,
        neutral={"enabled": False},
    )
    may_empty_rows = False

    def init_state(self, context: Context) -> PLessState:
        """Return the initial state of the rows."""
        enabled, relaxed = (
            torch.full((context.batch_size,), value, dtype=torch.bool, device=context.device)
            for value in (self.enabled, self.relaxed)
        )
        return PLessState(enabled, relaxed, minimum(context, 1))

    def _active(self, enabled: Any, columns: int) -> Any:
        return enabled

    def _threshold(self, parameters: tuple[Tensor, ...], scores: Tensor, chances: Tensor) -> Tensor:
        equal = chances.square().sum(1, keepdim=True, dtype=torch.float64)
        columns = scores.shape[1]
        lower = (columns * equal - 1) / max(columns - 1, 1)
        # If all tokens are equally likely, rounding could lift the sum above the probability of each.
        found = torch.where(parameters[1][:, None], lower, equal).to(chances.dtype)
        return found.minimum(chances.amax(1, keepdim=True))
