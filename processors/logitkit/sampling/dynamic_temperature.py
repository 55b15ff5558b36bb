"""DynamicTemperature: a temperature that follows the entropy of the distribution."""

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
from logitkit.sampling.scores import entropy_of, scores_of
from logitkit.sampling.temperature import divided_tensors

__all__ = ["DynamicTemperature", "DynamicTemperatureState"]

# Not 0, as for `Temperature`: a row would keep its best token only, but at some steps, so it would be a truncation too.
BOUND = Number(1e-4, 1e4, "1 changes nothing")
EXPONENT = Number(0, 100, "1 is linear")


class DynamicTemperatureState(NamedTuple):
    """The range of temperatures of each row.

    Args:
        low: [B] float64, from 1e-4 to 1e4.
        high: [B] float64, from 1e-4 to 1e4.
        exponent: [B] float64, from 0 to 100.
    """

    low: Annotated[Tensor, BOUND]
    high: Annotated[Tensor, BOUND]
    exponent: Annotated[Tensor, EXPONENT]


@dataclass(frozen=True)
class DynamicTemperature(Reshaping[DynamicTemperatureState]):
    """Divide all logits by a temperature between `low`, if the model is certain, and `high`, if all tokens are equally likely.

    The temperature is low + (high - low) · (entropy / log n)^exponent, where n tokens are left, those above -inf. A row with one
    token does not change. Finite logits stay finite, as with `Temperature`.

    Args:
        low: The temperature at an entropy of 0, from 1e-4 to 1e4.
        high: The temperature at the greatest entropy, from 1e-4 to 1e4. If both are 1, nothing changes.
        exponent: From 0 to 100; below 1, the temperature rises faster at low entropies.

    Raises:
        ConfigurationError: An argument is not a number in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> context = lk.Context.of([[]], vocabulary_size=2)
        >>> dynamic = lk.DynamicTemperature(0.5, 2.0)
        >>> for logits in ([3.0, 3.0], [3.0, -97.0]):
        ...     dynamic.process_logits(dynamic.init_state(context), torch.tensor([logits]), context)[1]
        tensor([[1.5000, 1.5000]])
        tensor([[   6., -194.]])

    Source: kalomaze, Dynamic Temperature (2023). The results are those of llama.cpp's temp-ext, where `low` and `high` are
    temp - range and temp + range, within a part of 1e-4 of each logit, since ours sums the entropy in 64 bits. Where llama.cpp's
    range reaches down to 0, give 1e-4.
    """

    low: float
    high: float
    exponent: float = 1.0

    role = Role.TEMPERATURE
    kind = Kind(
        "dynamic_temperature",
        {"low": BOUND, "high": BOUND, "exponent": EXPONENT},
        order=10,
        neutral={"low": 1.0, "high": 1.0},
    )
    may_empty_rows = False

    def init_state(self, context: Context) -> DynamicTemperatureState:
        """Return the initial state of the rows."""
        return DynamicTemperatureState(
            per_row(context, self.low), per_row(context, self.high), per_row(context, self.exponent)
        )

    def _active(self, state: DynamicTemperatureState) -> Tensor:
        return (state.low != 1) | (state.high != 1)

    def _by_tensors(self, state: DynamicTemperatureState, logits: Tensor) -> Tensor:
        scores = scores_of(logits)
        count = (scores > -torch.inf).sum(1, keepdim=True)
        greatest = count.clamp(min=2).double().log()
        share = (entropy_of(scores, scores.softmax(1)) / greatest)[:, 0].clamp(0, 1)
        # A power of 0 has no derivative.
        spread = torch.where(share > 0, torch.where(share > 0, share, 1.0) ** state.exponent, 0.0**state.exponent)
        temperature = state.low + (state.high - state.low) * spread
        active = self._active(state)
        chosen = torch.where((count[:, 0] > 1) & active, temperature, 1.0)
        given = torch.where(logits.isnan() & active[:, None], -torch.inf, logits)
        # The derivative of -inf by the temperature would not be a number, so another number is divided there.
        banned = given == -torch.inf
        divided = divided_tensors(chosen, torch.where(banned, given.amax(1, keepdim=True), given))
        return torch.where(banned, -torch.inf, divided)
