"""A toy model over four tokens, the particles on it, and all that it can write, by brute force."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import NoParticleLeft
from logitkit.particles import ParticleFilter, Population

TOKENS = (b"a", b"b", b"ab")
EOS = 3
VOCABULARY = lk.Vocabulary([*TOKENS, None], eos_ids=[EOS])
_TABLE = torch.randn(97, 4, generator=torch.Generator().manual_seed(0)) * 1.5

Row = tuple[int, ...]

# A row that fewer estimates have is rare, and no estimate is larger than this many times the probability of the language.
OFTEN, LARGEST = 10, 3


def logits_of(row: Sequence[int]) -> Tensor:
    """The logits after some tokens, [4]; they depend on the last three."""
    return _TABLE[sum((token + 1) * 5**i for i, token in enumerate(row[-3:])) % 97]


def bytes_of(row: Sequence[int]) -> bytes:
    return b"".join(TOKENS[token] for token in row)


def truth(
    accepts: Callable[[bytes], bool],
    limit: int,
    change: Callable[[Row, Tensor], Tensor] | None = None,
) -> dict[Row, float]:
    """The probability of each row of tokens, with its EOS, whose text is accepted."""
    found: dict[Row, float] = {}

    def grow(row: Row, probability: float) -> None:
        logits = logits_of(row)
        chances = (change(row, logits) if change else logits).double().softmax(0).tolist()
        if accepts(bytes_of(row)):
            found[(*row, EOS)] = probability * chances[EOS]
        if len(row) < limit:
            for token in range(3):
                grow((*row, token), probability * chances[token])

    grow((), 1.0)
    return found


def finished(particle_filter: ParticleFilter, limit: int, prompt: Sequence[int] = ()) -> Population | None:
    """The particles after their last step; None if none is left."""
    population = particle_filter.start(prompt, 4, limit)
    try:
        while not population.is_done:
            rows = [[token for token in row if token >= 0] for row in population.tokens.tolist()]
            population = particle_filter.step(population, torch.stack([logits_of(row) for row in rows]))
    except NoParticleLeft:
        return None
    return population


def estimates(particle_filter: Callable[[int], ParticleFilter], runs: int, limit: int) -> list[dict[Row, float]]:
    """The estimate of the probability of each row of tokens, for each of several seeds."""
    found = []
    for seed in range(runs):
        population, estimate = finished(particle_filter(seed), limit), dict[Row, float]()
        if population is not None:
            factor = math.exp(population.log_factor) / len(population.tokens)
            for row, weight in zip(population.tokens.tolist(), population.log_weights.exp().tolist(), strict=True):
                key = tuple(token for token in row if token >= 0)
                estimate[key] = estimate.get(key, 0.0) + factor * weight
        found.append(estimate)
    return found


def assert_unbiased(found: Sequence[dict[Row, float]], wanted: dict[Row, float], deviations: float = 4.0) -> None:
    """Assert that means of estimates are within some standard errors of the truth, for each row and for their sum."""
    outside = {row for one in found for row, value in one.items() if value and row not in wanted}
    assert not outside
    cases = {row: [one.get(row, 0.0) for one in found] for row in wanted}
    for values, true in [
        *((cases[row], wanted[row]) for row in wanted),
        ([sum(one.values()) for one in found], sum(wanted.values())),
    ]:
        series = torch.tensor(values, dtype=torch.float64)
        deviation = float(series.std())
        if int((series > 0).sum()) < OFTEN:
            # A row is too rare for a measured deviation: it gets that of an event of the largest value.
            deviation = max(deviation, math.sqrt(true * LARGEST * sum(wanted.values())))
        error = deviation / math.sqrt(len(found))
        assert abs(float(series.mean()) - true) < deviations * error
