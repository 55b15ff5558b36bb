"""The particles between two steps: their texts, weights and processor states, as a value."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from logitkit.particles.weights import log_mean
from logitkit.protocol.context import Context
from logitkit.protocol.state import select

__all__ = ["Population"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """N particles after some tokens. No step changes a population; it returns a new one.

    Args:
        context: The context of the particles. Each draws from the random stream of its place, so copies draw different numbers.
        model_state: The state of the processors that change probabilities.
        language_state: The state of the constraints.
        tokens: [N, T] int64, the tokens after the prompt, with EOS; -1 after the end of a text.
        rows: [N] int64, the place that each particle had before the last step, to reorder caches; None if all stayed.
        log_weights: [N] float64, the weights since the last resampling; -inf for a particle that left the language.
        log_factor: The logarithm of the mean weights of all resamplings before.
        ended: [N] bool, the particles whose text is complete, or that left the language.
        log_twists: [N] float64, what the proposals have gained so far, which the weights contain.
        effective_sample_sizes: That of each step, before it resampled.
        resampled: The steps that resampled.
    """

    context: Context
    model_state: tuple[Any, ...]
    language_state: tuple[Any, ...]
    tokens: Tensor
    log_weights: Tensor
    ended: Tensor
    log_twists: Tensor
    rows: Tensor | None = None
    log_factor: float = 0.0
    effective_sample_sizes: tuple[float, ...] = ()
    resampled: tuple[int, ...] = ()

    @classmethod
    def start(cls, context: Context, model_state: tuple[Any, ...], language_state: tuple[Any, ...]) -> Population:
        """Return particles without tokens, of equal weight."""
        count, device = context.batch_size, context.device
        zeros = torch.zeros(count, dtype=torch.float64, device=device)
        return cls(
            context=context,
            model_state=model_state,
            language_state=language_state,
            tokens=torch.zeros(count, 0, dtype=torch.int64, device=device),
            log_weights=zeros,
            ended=torch.zeros(count, dtype=torch.bool, device=device),
            log_twists=zeros,
        )

    @property
    def last_tokens(self) -> Tensor:
        """The last token of each particle, [N] int64: EOS or -1 for those that have ended."""
        return self.tokens[:, -1]

    @property
    def is_done(self) -> bool:
        """Whether all particles have ended."""
        return bool(self.ended.all())

    @property
    def log_probability(self) -> float:
        """The logarithm of the estimate of the language's probability, once all particles have ended; -inf for 0."""
        return self.log_factor + log_mean(self.log_weights)

    def weighed(self, log_weights: Tensor, size: float) -> Population:
        """Return the particles with other weights, whose effective sample size is given."""
        return replace(
            self, log_weights=log_weights, effective_sample_sizes=(*self.effective_sample_sizes, size), rows=None
        )

    def taken(self, rows: Tensor) -> Population:
        """Return the given particles, [N] int64, as copies of equal weight that share the total weight."""
        return replace(
            self,
            model_state=select(self.model_state, rows),
            language_state=select(self.language_state, rows),
            tokens=self.tokens[rows],
            ended=self.ended[rows],
            log_twists=self.log_twists[rows],
            rows=rows,
            log_factor=self.log_factor + log_mean(self.log_weights),
            log_weights=torch.zeros_like(self.log_weights),
            resampled=(*self.resampled, self.tokens.shape[1]),
        )

    def grown(
        self,
        tokens: Tensor,
        is_end: Tensor,
        log_twists: Tensor,
        model_state: tuple[Any, ...],
        language_state: tuple[Any, ...],
    ) -> Population:
        """Return the particles after one token each, [N] int64, -1 for none.

        Args:
            tokens: The tokens.
            is_end: [N] bool, which of them are EOS.
            log_twists: What the proposals have gained so far.
            model_state: The state after the tokens.
            language_state: The same of the constraints.
        """
        return replace(
            self,
            context=self.context.at(self.context.lengths + 1),
            model_state=model_state,
            language_state=language_state,
            tokens=torch.cat([self.tokens, tokens[:, None]], 1),
            ended=self.ended | is_end | (tokens < 0),
            log_twists=log_twists,
        )

    def __repr__(self) -> str:
        count, length = self.tokens.shape
        shown = f", probability={math.exp(self.log_probability):.3g}" if self.is_done else ""
        return f"Population({count} particles, {length} tokens, {int(self.ended.sum())} ended{shown})"
