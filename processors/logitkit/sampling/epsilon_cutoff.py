"""EpsilonCutoff: keep the tokens whose probability is at least a constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from torch import Tensor

from logitkit.parameters import Number
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind
from logitkit.protocol.state import Fill
from logitkit.sampling.probability_cutoff import ProbabilityCutoff
from logitkit.sampling.scores import AT_LEAST, minimum

__all__ = ["EpsilonCutoff", "EpsilonCutoffState"]

EPSILON = Number(0, 1, "0 changes nothing")


class EpsilonCutoffState(NamedTuple):
    """The threshold of each row.

    Args:
        epsilon: [B] float64, from 0 to 1; 0 keeps all tokens.
        keep: The minimum number of tokens to keep; see `minimum`.
    """

    epsilon: Annotated[Tensor, EPSILON]
    keep: Annotated[Tensor, Fill(1), AT_LEAST]


@dataclass(frozen=True)
class EpsilonCutoff(ProbabilityCutoff[EpsilonCutoffState]):
    """Keep the tokens whose probability is at least `epsilon`; set all others to -inf.

    The best token always stays.

    Args:
        epsilon: From 0 (which changes nothing) to 1; the paper suggests 3e-4 to 9e-4.
        min_tokens_to_keep: Keep at least this many of the best tokens, and all that tie with the last of them; from 1.

    Raises:
        ConfigurationError: An argument is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> likely = lk.EpsilonCutoff(0.25)
        >>> context = lk.Context.of([[]], vocabulary_size=3)
        >>> logits = torch.tensor([[0.5, 0.2, 0.3]]).log()
        >>> likely.process_logits(likely.init_state(context), logits, context)[1].exp()
        tensor([[0.5000, 0.0000, 0.3000]])

    Source: Hewitt et al., Truncation Sampling as Language Model Desmoothing (2022). The results are those of transformers'
    EpsilonLogitsWarper in float32.
    """

    epsilon: float
    min_tokens_to_keep: int = 1

    # Where transformers has it: after the truncations that need no constant, and before EtaCutoff.
    kind = Kind(
        "epsilon_cutoff",
        {"epsilon": EPSILON, "min_tokens_to_keep": AT_LEAST},
        main="epsilon",
        order=52,
        neutral={"epsilon": 0.0},
    )
    may_empty_rows = False

    def init_state(self, context: Context) -> EpsilonCutoffState:
        """Return the initial state of the rows."""
        return EpsilonCutoffState(per_row(context, self.epsilon), minimum(context, self.min_tokens_to_keep))

    def _active(self, epsilon: Any, columns: int) -> Any:
        return epsilon > 0

    def _threshold(self, parameters: tuple[Tensor, ...], scores: Tensor, chances: Tensor) -> Tensor:
        return parameters[0].to(chances.dtype)[:, None]
