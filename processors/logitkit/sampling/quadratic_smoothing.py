"""QuadraticSmoothing: a curve over the distance to the best logit, in place of a temperature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from logitkit.parameters import Number
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.sampling.reshaping import Reshaping

__all__ = ["QuadraticSmoothing", "QuadraticSmoothingState"]

FACTOR = Number(0, 1e4, "0 changes nothing")
CURVE = Number(1, 3, "1 is a parabola")

# Logits are never this far apart, except for the greatest numbers of 64 bits.
FURTHEST = 1e99


class QuadraticSmoothingState(NamedTuple):
    """The curve of each row.

    Args:
        factor: [B] float64, from 0 to 1e4; 0 changes nothing.
        curve: [B] float64, from 1 to 3.
    """

    factor: Annotated[Tensor, FACTOR]
    curve: Annotated[Tensor, CURVE]


@dataclass(frozen=True)
class QuadraticSmoothing(Reshaping[QuadraticSmoothingState]):
    """Replace each logit by one that falls with the square, or the cube, of its distance to the best logit.

    With d, the logit less the best one, the new logit is best - factor · (k · d² - s · d³), where k = (3 - curve) / 2 and
    s = (curve - 1) / 2. Tokens near the best one come closer to it, and unlikely ones fall further. The order of tokens stays.
    Finite logits stay finite. A row with a logit at +inf does not change.

    Args:
        factor: From 0 (which changes nothing) to 1e4; 0.2 to 0.3 is usual.
        curve: From 1 (a parabola) to 3 (a cubic curve). With a higher one, unlikely tokens would overtake the best one.

    Raises:
        ConfigurationError: An argument is not a number in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> smooth = lk.QuadraticSmoothing(0.25)
        >>> context = lk.Context.of([[]], vocabulary_size=3)
        >>> smooth.process_logits(smooth.init_state(context), torch.tensor([[5.0, 4.0, -5.0]]), context)[1]
        tensor([[  5.0000,   4.7500, -20.0000]])

    Source: kalomaze, Quadratic sampling, or smooth sampling (2024), with the curve of text-generation-webui and KoboldCpp.
    """

    factor: float
    curve: float = 1.0

    role = Role.TEMPERATURE
    kind = Kind(
        "quadratic_smoothing",
        {"factor": FACTOR, "curve": CURVE},
        main="factor",
        order=20,
        neutral={"factor": 0.0},
    )
    may_empty_rows = False

    def init_state(self, context: Context) -> QuadraticSmoothingState:
        """Return the initial state of the rows."""
        return QuadraticSmoothingState(per_row(context, self.factor), per_row(context, self.curve))

    def _active(self, state: QuadraticSmoothingState) -> Tensor:
        return state.factor != 0

    def _by_tensors(self, state: QuadraticSmoothingState, logits: Tensor) -> Tensor:
        # In 64 bits, the cube of a distance up to this bound has room, whatever the parameters are.
        scores = torch.where(logits.isnan(), -torch.inf, logits.double())
        best = scores.amax(1, keepdim=True)
        finite = scores.isfinite() & best.isfinite()
        below = torch.where(finite, scores - best, 0.0).clamp(min=-FURTHEST)
        factor, curve = state.factor[:, None], state.curve[:, None]
        curved = (3 - curve) / 2 - (curve - 1) / 2 * below
        most = torch.finfo(logits.dtype).max
        lowered = (best - factor * below * below * curved).clamp(-most, most)
        changed = torch.where(finite, lowered, scores).to(logits.dtype)
        return torch.where(self._active(state)[:, None], changed, logits)
