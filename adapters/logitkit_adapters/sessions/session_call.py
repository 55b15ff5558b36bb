"""The checked arguments of one call of a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from logitkit.errors import ConfigurationError
from logitkit.parameters.scalars import checked_integer, checked_real
from logitkit_adapters.sessions.generator_options import MOST, MOST_PENALTY

__all__ = ["SessionCall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCall:
    """The checked arguments of one call of a session.

    Args:
        processor: The processor, in the form that the session uses, or None.
        prompts: The tokens of each prompt.
        counts: The maximum number of new tokens of each prompt.
        seed: The seed of sampling; None: greedy, unless there are several samples.
        num_samples: The number of samples per prompt.
        num_beams: The number of beams per prompt.
        length_penalty: The power of the length by which the weight of a beam is divided.
        log_probs: Whether to compute log-probabilities.
        record_kept: Whether to record the tokens that the processor keeps at each step.
        whole_text: Whether the text of a row includes the stop that ended it.
    """

    processor: Any
    prompts: list[list[int]]
    counts: list[int]
    seed: int | None = None
    num_samples: int = 1
    num_beams: int = 1
    length_penalty: float = 1.0
    log_probs: bool = False
    record_kept: bool = False
    whole_text: bool = False

    def __post_init__(self) -> None:
        checked_integer("num_samples", self.num_samples, 1, MOST)
        checked_integer("num_beams", self.num_beams, 1, MOST)
        checked_real(
            "length_penalty", self.length_penalty, -MOST_PENALTY, MOST_PENALTY, "0 compares texts without their lengths"
        )
        if self.seed is not None:
            object.__setattr__(self, "seed", checked_integer("seed", self.seed, 0, 2**63 - 1))
        if self.num_beams > 1 and (self.num_samples > 1 or self.seed is not None):
            raise ConfigurationError(
                f"num_beams={self.num_beams} was given with num_samples={self.num_samples} and seed={self.seed}; beam search "
                "does not sample, and each beam is a row: leave these out"
            )
        if self.record_kept and self.num_beams > 1:
            raise ConfigurationError(
                f"record_kept=True was given with num_beams={self.num_beams}; beams are not samples, so leave one of them out"
            )
        if self.seed is None and self.num_samples > 1:
            object.__setattr__(self, "seed", int(torch.randint(2**62, ())))

    @property
    def rows(self) -> list[tuple[list[int], int]]:
        """The prompt and the maximum number of new tokens of each row: of each sample or beam."""
        pairs = zip(self.prompts, self.counts, strict=True)
        return [pair for pair in pairs for _ in range(max(self.num_samples, self.num_beams))]
