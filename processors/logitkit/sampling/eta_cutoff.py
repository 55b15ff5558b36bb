"""EtaCutoff: keep the tokens whose probability is at least a threshold that falls with the entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from logitkit.parameters import Number
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind
from logitkit.protocol.state import Fill
from logitkit.sampling.probability_cutoff import ProbabilityCutoff
from logitkit.sampling.scores import AT_LEAST, entropy_of, minimum

__all__ = ["EtaCutoff", "EtaCutoffState"]

EPSILON = Number(0, 1, "0 changes nothing")


class EtaCutoffState(NamedTuple):
    """The greatest threshold of each row.

    Args:
        epsilon: [B] float64, from 0 to 1; 0 keeps all tokens.
        keep: The minimum number of tokens to keep; see `minimum`.
    """

    epsilon: Annotated[Tensor, EPSILON]
    keep: Annotated[Tensor, Fill(1), AT_LEAST]


@dataclass(frozen=True)
class EtaCutoff(ProbabilityCutoff[EtaCutoffState]):
    """Keep the tokens whose probability is at least eta = min(epsilon, √epsilon · e^-entropy); set all others to -inf.

    If the model is certain, the threshold is epsilon. If many tokens are likely, it is lower, so that more of them stay. The
    best token always stays.

    Args:
        epsilon: From 0 (which changes nothing) to 1; the paper suggests 3e-4 to 4e-3.
        min_tokens_to_keep: Keep at least this many of the best tokens, and all that tie with the last of them; from 1.

    Raises:
        ConfigurationError: An argument is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> likely = lk.EtaCutoff(0.25)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> logits = torch.tensor([[0.5, 0.2, 0.2, 0.1]]).log()  # the entropy is 1.22: eta is 0.148
        >>> likely.process_logits(likely.init_state(context), logits, context)[1].exp()
        tensor([[0.5000, 0.2000, 0.2000, 0.0000]])

    Source: Hewitt et al., Truncation Sampling as Language Model Desmoothing (2022). The results are those of transformers'
    EtaLogitsWarper in float32, except that the entropy is summed in 64 bits, which may matter to a token at the threshold.
    """

    epsilon: float
    min_tokens_to_keep: int = 1

    # Where transformers has it: after all other truncations.
    kind = Kind(
        "eta_cutoff",
        {"epsilon": EPSILON, "min_tokens_to_keep": AT_LEAST},
        main="epsilon",
        order=54,
        neutral={"epsilon": 0.0},
    )
    may_empty_rows = False

    def init_state(self, context: Context) -> EtaCutoffState:
        """Return the initial state of the rows."""
        return EtaCutoffState(per_row(context, self.epsilon), minimum(context, self.min_tokens_to_keep))

    def _active(self, epsilon: Any, columns: int) -> Any:
        return epsilon > 0

    def _threshold(self, parameters: tuple[Tensor, ...], scores: Tensor, chances: Tensor) -> Tensor:
        epsilon = parameters[0][:, None]
        spread = epsilon.sqrt() * (-entropy_of(scores, chances)).exp()
        return torch.minimum(epsilon, spread).to(chances.dtype)
