"""Truncation and temperature: which of the legal tokens may be sampled, and how likely each is.

temperature, top_k, top_a, top_p, min_p, typical_p, top_n_sigma, xtc    one processor per file
scores                 logits as finite scores, and the tokens to keep at least
counter_random         random numbers that depend only on seed, row and position
"""

from logitkit.sampling.counter_random import uniform_rows as uniform_rows
from logitkit.sampling.counter_random import uniform_tensors as uniform_tensors

__all__ = ["uniform_rows", "uniform_tensors"]
