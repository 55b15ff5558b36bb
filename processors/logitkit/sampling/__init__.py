"""Truncation and temperature: which of the legal tokens may be sampled, and how likely each is.

temperature, top_k, top_a, top_h, top_p, min_p, typical_p, top_n_sigma, tail_free, epsilon_cutoff, eta_cutoff, p_less,
dynamic_temperature, quadratic_smoothing, xtc    one processor per file
guidance               classifier-free guidance, by the logits of a second pass
probability_cutoff     the base of truncations at a probability
reshaping              the base of processors that give each logit another value
scores                 logits as finite scores, their entropy, and the tokens to keep at least
counter_random         random numbers that depend only on seed, row and position
"""

from logitkit.sampling.counter_random import uniform_rows as uniform_rows
from logitkit.sampling.counter_random import uniform_tensors as uniform_tensors

__all__ = ["uniform_rows", "uniform_tensors"]
