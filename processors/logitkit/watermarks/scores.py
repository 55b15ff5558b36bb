"""The scores of tokens after their contexts, which each watermark makes greater than chance would, and their significance.

With a ratio of 0.25, 100 tokens of a text without a watermark have 25 green ones on average, with a standard deviation of 4.33. A
text with 40 has z = 3.46. The p-value, the chance of 40 or more without a watermark, is 0.0007 by the binomial distribution; the
normal distribution would say 0.0003, so it would raise more false alarms than it promises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from logitkit.errors import ConfigurationError
from logitkit.watermarks.green_lists import is_first, left_greens, self_seeds
from logitkit.watermarks.gumbel import GumbelWatermark, uniform_of
from logitkit.watermarks.keyed_numbers import NUMBERS, hash_contexts, numbers_of
from logitkit.watermarks.kgw import KgwWatermark
from logitkit.watermarks.synthid import SynthIdWatermark, hash_step, sampling_table

__all__ = ["Significance", "bits_of", "green_of", "kgw_significance", "marks_of", "synthid_significance"]


@dataclass(frozen=True, slots=True)
class Significance:
    """How far a score is from chance.

    Args:
        score: The sum or the mean of the scores of tokens.
        z: Its distance from the mean without a watermark, in standard deviations.
        p_value: The chance of such a score or a greater one without a watermark.
    """

    score: float
    z: float
    p_value: float


NOTHING = Significance(0.0, 0.0, 1.0)


def kgw_significance(watermark: KgwWatermark, green: NDArray[np.bool_], columns: int | None) -> Significance:
    """Return the significance of the green tokens, [N] bool."""
    count, found, ratio = len(green), int(green.sum()), watermark.ratio
    if not count:
        return NOTHING
    z = (found - ratio * count) / math.sqrt(count * ratio * (1 - ratio))
    # A permutation has a whole number of green tokens.
    exact = ratio if watermark.scheme == "hash" or columns is None else int(columns * ratio) / columns
    return Significance(float(found), z, _binomial_tail(found, count, exact))


def synthid_significance(watermark: SynthIdWatermark, bits: NDArray[np.uint8]) -> Significance:
    """Return the significance of the bits of tokens, [N, D].

    Later layers change less, so they count less: their weights fall from 10 to 1, as in the paper's weighted mean.
    """
    count, depth = bits.shape
    if not count:
        return NOTHING
    weights = np.linspace(10, 1, depth)
    weights /= weights.sum()
    # The table is a sample, in which ones may be a little more frequent than zeros, or less.
    ones = float(sampling_table(watermark.sampling_table_seed, watermark.sampling_table_size).mean())
    deviation = math.sqrt(ones * (1 - ones) * float((weights**2).sum()) / count)
    mean = float((bits.mean(0) * weights).sum())
    z = (mean - ones) / deviation if deviation else 0.0
    return Significance(mean, z, 0.5 * math.erfc(z / math.sqrt(2)))


def marks_of(watermark: GumbelWatermark, contexts: NDArray[np.int64], tokens: NDArray[np.int64]) -> Significance:
    """Return the significance of the noise of tokens, [N], after contexts, [N, W]: the sum of -log(1 - u)."""
    count = len(tokens)
    if not count:
        return NOTHING
    score = float(-np.log1p(-uniform_of(_numbers(watermark.key, contexts, tokens))).sum())
    tail = torch.special.gammaincc(torch.tensor(float(count)).double(), torch.tensor(score).double())
    return Significance(score, (score - count) / math.sqrt(count), float(tail))


def green_of(
    watermark: KgwWatermark, contexts: NDArray[np.int64], tokens: NDArray[np.int64], columns: int | None
) -> NDArray[np.bool_]:
    """Return which tokens, [N], are green after their contexts, [N, W].

    Raises:
        ConfigurationError: The scheme permutes the vocabulary, and its size is not given, or a token is not in it.
    """
    if watermark.scheme == "hash":
        return _numbers(watermark.key, contexts, tokens) < int(watermark.ratio * NUMBERS)
    if columns is None or (tokens >= columns).any():
        given = "is not given" if columns is None else f"is {columns}, but there is the token {tokens.max()}"
        raise ConfigurationError(
            f'vocabulary_size {given}; with the scheme "{watermark.scheme}", give the number of columns of the model\'s logits'
        )
    count = int(columns * watermark.ratio)
    if watermark.scheme == "lefthash":
        ends = zip(contexts[:, -1], tokens, strict=True)
        return np.array([bool(left_greens(watermark.key, int(e), columns, count)[t]) for e, t in ends], np.bool_)
    seeds = self_seeds(watermark.key, contexts, tokens)
    return np.array([is_first(s, int(t), columns, count) for s, t in zip(seeds, tokens, strict=True)], np.bool_)


def bits_of(watermark: SynthIdWatermark, ngrams: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the random bits of n-grams, [N, ngram_len], for each key: [N, D]."""
    table = sampling_table(watermark.sampling_table_seed, watermark.sampling_table_size)
    hashed: Any = np.ones(len(ngrams), np.int64)
    with np.errstate(over="ignore"):
        for column in ngrams.T:
            hashed = hash_step(hashed, column)
        keyed = hash_step(hashed[:, None], np.array(watermark.keys, np.int64))
    found: NDArray[np.uint8] = table[keyed % len(table)]
    return found


def _numbers(key: int, contexts: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of each token, [N], after its context, [N, W] with the newest token last."""
    newest_first, width = torch.from_numpy(contexts[:, ::-1].copy())[None], torch.tensor([contexts.shape[1]])
    hashes = hash_contexts(torch.tensor([key]), newest_first, width)[0]
    numbers: NDArray[np.int64] = numbers_of(hashes, torch.from_numpy(tokens.copy())).numpy()
    return numbers


def _binomial_tail(least: int, count: int, chance: float) -> float:
    """Return the probability of at least `least` successes in `count` trials."""
    if least <= 0:
        return 1.0
    hits = torch.arange(least, count + 1, dtype=torch.float64)
    ways = math.lgamma(count + 1) - (hits + 1).lgamma() - (count - hits + 1).lgamma()
    terms = ways + hits * math.log(chance) + (count - hits) * math.log1p(-chance)
    return min(1.0, float(terms.logsumexp(0).exp()))
