"""Temperature: make the distribution sharper or flatter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.parameters import Number
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.runtime.host_logits import HostAndDevice

if TYPE_CHECKING:
    from logitkit.kernels.stages import Stage

__all__ = ["TEMPERATURE", "Temperature", "TemperatureState", "divided_tensors"]

# Far beyond every use: lower temperatures act like 0; with higher ones, all tokens are equally likely.
TEMPERATURE = Number(1e-4, 1e4, "1 changes nothing", zero="the best token only")

# Integers as wide as the floats that logits are, by their size in bytes.
SIGNED = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class TemperatureState(NamedTuple):
    """The temperature of each row.

    Args:
        temperature: [B] float64, 0 or from 1e-4 to 1e4; 1 changes nothing.
    """

    temperature: Annotated[Tensor, TEMPERATURE]


@dataclass(frozen=True)
class Temperature(HostAndDevice[TemperatureState]):
    """Divide all logits by a temperature; with 0, keep only the highest one (the first, if several tie).

    Finite logits stay finite. If the highest logit of a row would overflow its dtype, the row is shifted so that it is 0, which
    changes no probability.

    Args:
        temperature: 0, or from 1e-4 to 1e4; below 1 is sharper, above 1 flatter, 1 changes nothing.

    Raises:
        ConfigurationError: The temperature is not a number in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> context = lk.Context.of([[]], vocabulary_size=3)
        >>> for cool in (lk.Temperature(0.5), lk.Temperature(0)):
        ...     cool.process_logits(cool.init_state(context), torch.tensor([[1.0, 2.0, -3.0]]), context)[1]
        tensor([[ 2.,  4., -6.]])
        tensor([[-inf, 2., -inf]])

    Source: Ackley et al., A Learning Algorithm for Boltzmann Machines (1985). The results are those of transformers'
    TemperatureLogitsWarper, and with 0 those of llama.cpp.
    """

    temperature: float

    role = Role.TEMPERATURE
    kind = Kind("temperature", {"temperature": TEMPERATURE}, main="temperature", neutral={"temperature": 1.0})
    may_empty_rows = False

    @property
    def truncates(self) -> bool:
        """Whether it keeps only the best token."""
        return self.temperature == 0

    def init_state(self, context: Context) -> TemperatureState:
        """Return the initial state of the rows."""
        return TemperatureState(per_row(context, self.temperature))

    def _stage(self, state: TemperatureState) -> Stage | None:
        from logitkit.kernels.temperature_step import TemperatureStage

        return TemperatureStage(state.temperature)

    def _by_tensors(self, state: TemperatureState, logits: Tensor) -> Tensor:
        return divided_tensors(state.temperature, logits)

    def _by_rows(self, state: TemperatureState, logits: Tensor) -> Tensor:
        for row, temperature in enumerate(state.temperature.tolist()):
            if temperature == 1:
                continue
            line = logits[row].detach()
            if temperature == 0 or not _divided(line, temperature):
                line.copy_(divided_tensors(state.temperature[row : row + 1], line[None])[0])
        return logits


def _divided(line: Tensor, temperature: float) -> bool:
    """Divide a row in place and return True; leave it unchanged if a logit is NaN or +inf, or might overflow."""
    signed = line.view(SIGNED[line.dtype.itemsize]).numpy()
    unsigned = signed.view(f"u{signed.itemsize}")
    room, negative_room, negative_infinity = _room(line.dtype, temperature)
    # The bits of nonnegative floats sort like the floats, those of negative ones in reverse; NaN comes after infinity.
    if signed.max() > room:
        return False
    greatest = unsigned.max()
    if greatest > negative_room and (
        greatest != negative_infinity
        or np.count_nonzero(unsigned > negative_room) != np.count_nonzero(unsigned == negative_infinity)
    ):
        return False
    line.div_(temperature)
    return True


@lru_cache(maxsize=1024)
def _room(dtype: torch.dtype, temperature: float) -> tuple[int, int, int]:
    """Return the bits of a number that certainly stays finite, and as unsigned integers those of its negative and of -inf."""
    most = float(torch.finfo(dtype).max)
    numbers = torch.tensor([min(most, most / 2 * temperature), torch.inf], dtype=dtype)
    room, infinity = numbers.view(SIGNED[dtype.itemsize]).tolist()
    sign = 1 << (8 * dtype.itemsize - 1)
    return room, sign | room, sign | infinity


def divided_tensors(temperature: Tensor, logits: Tensor) -> Tensor:
    """Return logits, [B, V], divided by temperatures, [B] float64, as `Temperature` divides them."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    scores = torch.where(logits.isnan(), -torch.inf, logits.to(wide))
    t = temperature.to(wide)[:, None]
    number = torch.where(t > 0, t, 1.0)
    most = torch.finfo(logits.dtype).max
    top = scores.amax(1, keepdim=True)
    moved = top.isfinite() & (torch.abs(top / number) > most)
    divided = torch.where(moved, scores - top, scores) / number
    divided = divided.clamp(scores.clamp(max=-most), scores.clamp(min=most)).to(logits.dtype)
    first = torch.arange(logits.shape[1], device=logits.device) == scores.argmax(1, keepdim=True)
    only = torch.where(first, scores.to(logits.dtype), -torch.inf)
    return torch.where(t == 0, only, torch.where(t == 1, logits, divided))
