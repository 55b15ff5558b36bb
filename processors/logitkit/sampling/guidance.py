"""Guidance: classifier-free guidance, which strengthens what a prompt adds to the logits of a second pass."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from logitkit.parameters import Number
from logitkit.protocol.calls import by_tensors, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.guidance import checked_guidance
from logitkit.protocol.kind import Kind, Role
from logitkit.runtime.host_logits import HostAndDevice

__all__ = ["Guidance", "GuidanceState"]

# transformers takes any number. With larger ones, only the differences of the two passes count.
SCALE = Number(-1e4, 1e4, "1 changes nothing")


class GuidanceState(NamedTuple):
    """The scale of each row.

    Args:
        scale: [B] float64, from -1e4 to 1e4; 1 changes nothing.
    """

    scale: Annotated[Tensor, SCALE]


@dataclass(frozen=True)
class Guidance(HostAndDevice[GuidanceState]):
    """Classifier-free guidance: move the log-probabilities away from those of a second pass, without or with another prompt.

    The result is u + scale · (c - u), where c are the log-probabilities of the logits and u those of the second pass, both
    computed in at least 32 bits. The engine computes the second pass: from the same output after a negative prompt, or after no
    prompt. It passes the logits as `Context.guidance_logits`. Engines that have no second pass refuse this processor.

    A token at -inf stays there. A token that is at -inf only in the second pass keeps its log-probability c, as if both passes
    agreed on it. Finite logits stay finite. In a chain it comes first, because penalties and temperatures would otherwise change
    one of the two passes only.

    Args:
        scale: From -1e4 to 1e4. Above 1 it strengthens what the prompt adds; 1 changes nothing; 0 leaves the second pass alone;
            below 0 it does the opposite of the prompt.

    Raises:
        ConfigurationError: The scale is not a number in range; on use, if the context has no logits of a second pass.

    Example:
        >>> from dataclasses import replace
        >>> import torch
        >>> import logitkit as lk
        >>> guidance = lk.Guidance(2.0)
        >>> context = lk.Context.of([[]], vocabulary_size=2)
        >>> state = guidance.init_state(context)
        >>> context = replace(context, guidance_logits=torch.tensor([[0.5, 0.5]]).log())
        >>> guidance.process_logits(state, torch.tensor([[0.6, 0.3]]).log(), context)[1].softmax(1)
        tensor([[0.8000, 0.2000]])

    Source: Sanchez et al., Stay on topic with Classifier-Free Guidance (2023). The results are those of transformers'
    UnbatchedClassifierFreeGuidanceLogitsProcessor, except that a scale of 1 leaves the logits as they are.
    """

    scale: float

    role = Role.BIAS
    kind = Kind("guidance", {"scale": SCALE}, main="scale", neutral={"scale": 1.0})
    may_empty_rows = False
    reads_guidance = True

    def init_state(self, context: Context) -> GuidanceState:
        """Return the initial state of the rows."""
        return GuidanceState(per_row(context, self.scale))

    def process_logits(self, state: GuidanceState, logits: Tensor, context: Context) -> tuple[GuidanceState, Tensor]:
        """Return the state and the guided logits, [B, V]; on the CPU, these are the given ones, changed in place.

        Raises:
            ConfigurationError: The context has no logits of a second pass.
            BatchMismatch: They have another shape than `logits`.
        """
        logits = own_rows("Guidance", len(state.scale), logits)
        second = checked_guidance("Guidance", logits, context)
        if by_tensors(logits):
            return state, _guided(state.scale, logits, second)
        for row, scale in enumerate(state.scale.tolist()):
            if scale != 1:
                _guide_row(scale, logits[row : row + 1], second[row : row + 1])
        return state, logits


def _guided(scale: Tensor, logits: Tensor, second: Tensor) -> Tensor:
    """Return guided logits, [B, V], given a scale for each row, [B] float64."""
    wide, most = torch.promote_types(logits.dtype, torch.float32), torch.finfo(logits.dtype).max
    given, against = _sound(logits.to(wide)), _sound(second.to(wide))
    first, factor = _log_probabilities(given), scale.to(wide)[:, None]
    other = torch.where(against == -torch.inf, first, _log_probabilities(against))
    guided = torch.lerp(other, first, factor).clamp(-most, most).to(logits.dtype)
    return torch.where(factor == 1, logits, torch.where(given == -torch.inf, -torch.inf, guided))


def _guide_row(scale: float, line: Tensor, second: Tensor) -> None:
    """Overwrite a row of logits, [1, V] on the CPU, with the guided ones: those that `_guided` returns, with fewer passes."""
    wide, most = torch.promote_types(line.dtype, torch.float32), torch.finfo(line.dtype).max
    guided = second.to(wide).log_softmax(1).lerp_(line.to(wide).log_softmax(1), scale)
    # The sum is finite only if all numbers are, so no logit was -inf or NaN, and nothing has overflowed.
    if not isfinite(guided.sum().item()):
        line.copy_(_guided(torch.full((1,), scale, dtype=torch.float64), line, second))
        return
    line.copy_(guided if wide == line.dtype else guided.clamp_(-most, most))


def _sound(logits: Tensor) -> Tensor:
    """Return logits, [B, V] of 32 bits or more, in which NaN counts as -inf, and +inf as the greatest finite number."""
    return torch.where(logits.isnan(), -torch.inf, logits).clamp(max=torch.finfo(logits.dtype).max)


def _log_probabilities(logits: Tensor) -> Tensor:
    """Return the log-probabilities of sound logits, [B, V], as new and finite numbers, if any logit of the row is finite."""
    # The difference of two finite logits may overflow.
    return logits.log_softmax(1).clamp_(min=torch.finfo(logits.dtype).min)
