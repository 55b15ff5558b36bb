"""Truncation and temperature: which of the legal tokens may be sampled, and how likely.

temperature, top_k, top_a, top_p, min_p, typical_p, top_n_sigma, xtc    one processor a file
scores                 sorting and cutting by tensors; row by row on a CPU, see runtime.host_logits
counter_random         random numbers that depend on seed, row and position only
"""

from logitkit.sampling.counter_random import uniform_rows as uniform_rows
from logitkit.sampling.counter_random import uniform_tensors as uniform_tensors

__all__ = ["uniform_rows", "uniform_tensors"]
