"""Resampling: which particles are copied, so that the expected number of copies is proportional to the weight."""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.particles.weights import check_log_weights, normalized
from logitkit.sampling.counter_random import uniform_tensors

__all__ = ["SCHEMES", "ancestors"]

SCHEMES = ("systematic", "multinomial")


def ancestors(log_weights: Tensor, scheme: str, *, seed: int, stream: int, position: int) -> Tensor:
    """Return for each new particle the particle that it is a copy of.

    Multinomial resampling draws each of them independently. Systematic resampling draws a single number, and takes the particles
    at N equally spaced places of the summed weights: a particle of weight w gets N * w copies, rounded up or down. Both have the
    same expected numbers of copies; systematic ones vary less.

    Args:
        log_weights: [N] floating point, the logarithms of the weights, up to a common constant; not all -inf.
        scheme: "systematic" or "multinomial".
        seed: The seed of the random numbers, from 0 to 2**63 - 1.
        stream: The first stream of random numbers; multinomial resampling uses N streams.
        position: The position in the streams.

    Returns:
        [N] int64 in ascending order, from 0 to N - 1. A particle of weight 0 is never copied.

    Raises:
        ConfigurationError: The scheme is not one of the two, all weights are 0, or `log_weights` has NaN or +inf.

    Example:
        >>> import torch
        >>> from logitkit.particles import ancestors
        >>> weights = torch.tensor([0.5, 0.0, 0.25, 0.25])
        >>> ancestors(weights.log(), "systematic", seed=1, stream=4, position=0).tolist()
        [0, 0, 2, 3]

    Source: Carpenter, Clifford and Fearnhead, Improved Particle Filter for Nonlinear Problems, 1999, for the systematic scheme;
        Gordon, Salmond and Smith, Novel Approach to Nonlinear/Non-Gaussian Bayesian State Estimation, 1993, for the other.
    """
    check_log_weights(log_weights)
    if scheme not in SCHEMES:
        raise ConfigurationError(f"the resampling scheme is {scheme!r}; allowed are 'systematic' and 'multinomial'")
    if bool((log_weights == -torch.inf).all()):
        raise ConfigurationError("all weights are 0, so there is no particle to copy; start again with more particles")
    count, device = len(log_weights), log_weights.device
    sums = normalized(log_weights).exp().cumsum(0)
    drawn = 1 if scheme == "systematic" else count
    streams = torch.arange(stream, stream + drawn, dtype=torch.int64, device=device)
    numbers = uniform_tensors(torch.full_like(streams, seed), streams, torch.full_like(streams, position))
    spaced = (torch.arange(count, device=device) + numbers) / count
    numbers = spaced if scheme == "systematic" else numbers.sort().values
    # To the right of equal sums, so that a weight of 0 is never drawn; capped at the last sum, despite rounding.
    places = torch.searchsorted(sums, numbers * sums[-1], right=True)
    last = torch.searchsorted(sums, sums[-1:])
    return torch.minimum(places, last)
