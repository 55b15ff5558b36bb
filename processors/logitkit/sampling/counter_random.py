"""Random numbers without a state: hashes of a seed, a stream and a position.

Two implementations return the same numbers: one uses numpy's unsigned integers, the other signed tensors, which wrap alike.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["BITS", "STEP", "mix_rows", "mix_tensors", "shifted", "signed", "uniform_rows", "uniform_tensors"]

# The increment and the multipliers of SplitMix64 (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014).
STEP = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

# A float64 has 53 bits.
BITS = 53


def uniform_tensors(seed: Tensor, stream: Tensor, position: Tensor) -> Tensor:
    """Return random numbers, uniform in [0, 1).

    Args:
        seed: [B] int64; rows with the same seed and stream draw the same sequence.
        stream: [B] int64.
        position: [B] int64, the index in the sequence.

    Returns:
        [B] float64.
    """
    mixed = torch.zeros_like(seed)
    for part in (seed, stream, position):
        mixed = mix_tensors((mixed ^ part) + signed(STEP))
    return shifted(mixed, 64 - BITS).to(torch.float64) * 2.0**-BITS


def uniform_rows(seed: Tensor, stream: Tensor, position: Tensor) -> NDArray[np.float64]:
    """Return the same numbers on the CPU, where numpy is several times faster for a few rows."""
    mixed = np.zeros(len(seed), np.uint64)
    for part in (seed, stream, position):
        mixed = mix_rows((mixed ^ part.numpy().view(np.uint64)) + np.uint64(STEP))
    return (mixed >> np.uint64(64 - BITS)).astype(np.float64) * 2.0**-BITS


def mix_tensors(bits: Tensor) -> Tensor:
    """Return a permutation of the numbers of 64 bits in which each bit depends on all given ones; int64, of any shape."""
    bits = (bits ^ shifted(bits, 30)) * signed(FIRST)
    bits = (bits ^ shifted(bits, 27)) * signed(SECOND)
    return bits ^ shifted(bits, 31)


def mix_rows(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the same numbers, unsigned."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(FIRST)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(SECOND)
    return bits ^ (bits >> np.uint64(31))


def shifted(bits: Tensor, by: int) -> Tensor:
    """Shift numbers of 64 bits to the right, as unsigned ones."""
    # Shifting a negative number right fills in ones; an unsigned one gets zeros.
    return (bits >> by) & ((1 << (64 - by)) - 1)


def signed(number: int) -> int:
    """Return the signed number with the bits of an unsigned one of 64 bits."""
    return number - (1 << 64) if number >> 63 else number
