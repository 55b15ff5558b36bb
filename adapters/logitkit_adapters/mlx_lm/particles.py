"""Sampling with particles, `particles.sample`: the texts of a model given that they are in a language.

The particles are the rows of a batch, with the cache of `continuous`, which is reordered when they are resampled.
"""

from logitkit.particles import Particles
from logitkit_adapters.sessions.particle_sampling import sample

__all__ = ["Particles", "sample"]
