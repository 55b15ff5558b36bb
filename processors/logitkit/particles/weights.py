"""Weights of particles: their effective sample size and their mean, from logarithms."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from logitkit.errors import ArgumentTypeError, ConfigurationError

__all__ = ["check_log_weights", "effective_sample_size", "log_mean", "normalized"]


def effective_sample_size(log_weights: Tensor) -> float:
    """Return how many particles of equal weight are worth as much as these: the square of the sum by the sum of squares.

    Args:
        log_weights: [N] floating point, the logarithms of the weights, up to a common constant; -inf for weight 0.

    Returns:
        From 1 to N, or 0 if all weights are 0.

    Raises:
        ConfigurationError: `log_weights` is not a vector of at least one number, or has NaN or +inf.

    Example:
        >>> import torch
        >>> from logitkit.particles import effective_sample_size
        >>> effective_sample_size(torch.tensor([0.5, 0.5, 0.0, 0.0]).log())
        2.0

    Source: Kong, Liu and Wong, Sequential Imputations and Bayesian Missing Data Problems, 1994.
    """
    check_log_weights(log_weights)
    weights = normalized(log_weights).exp()
    squares = float((weights * weights).sum())
    return 1 / squares if squares > 0 else 0.0


def normalized(log_weights: Tensor) -> Tensor:
    """Return log-weights whose exponentials sum to 1, [N] float64; all -inf if all weights are 0.

    Example:
        >>> normalized(torch.tensor([0.0, 0.0])).exp().tolist()
        [0.5, 0.5]
    """
    wide = log_weights.to(torch.float64)
    total = wide.logsumexp(0)
    return wide if bool(total == -torch.inf) else wide - total


def log_mean(log_weights: Tensor) -> float:
    """Return the logarithm of the mean weight.

    Example:
        >>> round(math.exp(log_mean(torch.tensor([0.2, 0.4]).log())), 6)
        0.3
    """
    return float(log_weights.to(torch.float64).logsumexp(0)) - math.log(len(log_weights))


def check_log_weights(log_weights: object) -> None:
    """Raise an error unless log-weights are a vector of numbers below +inf."""
    if not isinstance(log_weights, Tensor):
        raise ArgumentTypeError(
            f"log_weights is of type {type(log_weights).__name__}; give a torch tensor of log-weights, [N]"
        )
    if log_weights.dim() != 1 or not log_weights.is_floating_point() or not len(log_weights):
        raise ConfigurationError(
            f"log_weights has shape {list(log_weights.shape)} and {log_weights.dtype}; allowed is a vector of at least one "
            "number in floating point, [N]"
        )
    if bool((log_weights.isnan() | (log_weights == torch.inf)).any()):
        raise ConfigurationError("log_weights has NaN or +inf; give finite logarithms, or -inf for a weight of 0")
