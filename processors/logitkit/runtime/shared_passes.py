"""Neighbouring processors that share passes over the logits where kernels run; elsewhere, each runs on its own.

The order of the processors stays. `logitkit.kernels.stages` says how one goes on where the one before ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from torch import Tensor

from logitkit.kernels import switch
from logitkit.protocol.calls import own_rows
from logitkit.protocol.processor import Processor
from logitkit.runtime.host_logits import HostAndDevice, first_tensor

if TYPE_CHECKING:
    from logitkit.kernels.joined_lists import TokenList
    from logitkit.kernels.stages import Stage

__all__ = ["process_together", "run_ends", "shares_passes"]


@cache
def _shares(kind: Any) -> bool:
    # A class that processes logits in a way of its own has no part in this.
    own = issubclass(kind, HostAndDevice) and kind._stage is not HostAndDevice._stage  # noqa: SLF001 - its other half
    return own and kind.process_logits is HostAndDevice.process_logits


def shares_passes(processor: Processor[Any]) -> bool:
    """Whether a processor may share passes with its neighbours."""
    return _shares(type(processor))


def run_ends(processors: Sequence[Processor[Any]], last: int | None = None) -> tuple[int, ...]:
    """Return for each processor where the run of those that may share passes with it ends: an index, not included.

    Args:
        processors: The processors, in order.
        last: The index of a processor that ends its run, because something happens to the logits after it.

    Example:
        >>> import logitkit as lk
        >>> run_ends([lk.AllowTokens([1]), lk.Temperature(0.7), lk.TopK(5), lk.TopP(0.9)])
        (1, 4, 4, 4)
    """
    ends: list[int] = []
    for place in reversed(range(len(processors))):
        goes_on = bool(ends) and place != last and all(map(shares_passes, processors[place : place + 2]))
        ends.append(ends[-1] if goes_on else place + 1)
    return tuple(reversed(ends))


def process_together(links: Sequence[tuple[Processor[Any], Any]], logits: Tensor) -> tuple[int, Tensor]:
    """Run the first ones of some processors in shared passes, where kernels run.

    Args:
        links: Processors that may share passes, with their states.
        logits: [B, V] on an accelerator, which may be overwritten.

    Returns:
        How many of the processors have run, which may be none, and the logits after them.

    Raises:
        BatchMismatch: The logits and a state have different numbers of rows.
        ConfigurationError: The logits have another rank, are not floating point, or require a gradient.
    """
    stages: list[Stage | TokenList] = []
    # One alone has nothing to share.
    for processor, state in links if len(links) > 1 else ():
        first = first_tensor(state)
        if not switch.runs_on(first, logits):
            break
        logits = own_rows(type(processor).__name__, len(first), logits)
        stage = processor._stage(state)  # type: ignore[attr-defined]  # noqa: SLF001 - its other half
        if stage is None:
            break
        stages.append(stage)
    if len(stages) < 2:
        return 0, logits
    from logitkit.kernels.stages import run_stages

    return run_stages(stages, logits), logits
