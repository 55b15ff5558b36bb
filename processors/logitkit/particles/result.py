"""The result of sampling with particles: texts with weights, and the probability of the language."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.parameters.scalars import checked_integer
from logitkit.particles.population import Population
from logitkit.particles.weights import effective_sample_size, normalized
from logitkit.sampling.counter_random import uniform_tensors

__all__ = ["Particles"]


@dataclass(frozen=True, kw_only=True)
class Particles:
    """Weighted texts that stand for a model's distribution, given that the text is in a language.

    Args:
        token_ids: The tokens of each text, with EOS.
        texts: The texts, without EOS; () where no tokenizer is known.
        log_weights: The logarithm of each weight. The weights sum to 1; a text with -inf is not in the language.
        log_probability: The logarithm of the estimate of the language's probability: how likely the model writes a text of the
            language by itself. The estimate, not its logarithm, has the right mean.
        effective_sample_sizes: The effective sample size of each step, before resampling.
        resampled: The steps that resampled, from 0.

    Example:
        >>> import math
        >>> found = Particles(
        ...     token_ids=((0, 2), (1, 2), (0, 2)),
        ...     texts=("a", "b", "a"),
        ...     log_weights=(math.log(0.5), math.log(0.25), math.log(0.25)),
        ...     log_probability=math.log(0.1),
        ...     effective_sample_sizes=(3.0, 2.7),
        ...     resampled=(),
        ... )
        >>> found.distribution()
        {'a': 0.75, 'b': 0.25}
        >>> found.best, round(found.probability, 3), round(found.effective_sample_size, 2)
        ('a', 0.1, 2.67)
    """

    token_ids: tuple[tuple[int, ...], ...]
    texts: tuple[str, ...]
    log_weights: tuple[float, ...]
    log_probability: float
    effective_sample_sizes: tuple[float, ...] = field(repr=False)
    resampled: tuple[int, ...] = field(repr=False)

    @classmethod
    def of(cls, population: Population, texts: Sequence[str] = ()) -> Particles:
        """Return the result of particles that have all ended.

        Args:
            population: The particles.
            texts: Their texts.
        """
        return cls(
            token_ids=tuple(tuple(token for token in row if token >= 0) for row in population.tokens.tolist()),
            texts=tuple(texts),
            log_weights=tuple(normalized(population.log_weights).tolist()),
            log_probability=population.log_probability,
            effective_sample_sizes=population.effective_sample_sizes,
            resampled=population.resampled,
        )

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each text; they sum to 1."""
        return tuple(map(math.exp, self.log_weights))

    @property
    def probability(self) -> float:
        """The estimate of the language's probability; 0 if it is below the range of a float."""
        return math.exp(self.log_probability)

    @property
    def effective_sample_size(self) -> float:
        """The effective sample size of the weights, from 1 to the number of particles. Copies of one text count as several."""
        return effective_sample_size(self._log_weights)

    @property
    def best(self) -> str:
        """The text with the greatest weight in total."""
        return next(iter(self.distribution()))

    def distribution(self) -> dict[str, float]:
        """Return the weight of each text, summed over its tokenizations and copies, greatest first; without those of weight 0.

        Raises:
            ConfigurationError: The texts are unknown.
        """
        if not self.texts:
            raise ConfigurationError("the particles have token ids only; decode them to get the weights of texts")
        found: dict[str, float] = {}
        for text, weight in zip(self.texts, self.weights, strict=True):
            if weight:
                found[text] = found.get(text, 0.0) + weight
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def draw(self, seed: int) -> int:
        """Return the place of one text, drawn by its weight. Draw once: the texts of one run depend on each other.

        Args:
            seed: From 0 to 2**63 - 1.

        Raises:
            ConfigurationError: The seed is not an integer in this range.
        """
        number = torch.tensor([checked_integer("seed", seed, 0, 2**63 - 1)])
        zero = torch.zeros_like(number)
        sums = self._log_weights.exp().cumsum(0)
        place = torch.searchsorted(sums, uniform_tensors(number, zero, zero) * sums[-1], right=True)
        return int(torch.minimum(place, torch.searchsorted(sums, sums[-1:])))

    @property
    def _log_weights(self) -> Tensor:
        return torch.tensor(self.log_weights, dtype=torch.float64)
