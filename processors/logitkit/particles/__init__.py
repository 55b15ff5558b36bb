"""Particles: sequential Monte Carlo, which samples a model's texts given that they are in a language.

Masking token by token samples another distribution. Here, several texts, the particles, grow together. Each has a weight: the
probability that constraints kept at its steps. Particles of low weight are replaced by copies of others.

particle_filter  ParticleFilter: one step of all particles, on the logits of an engine
population       the particles between two steps
target           the parts of a processor: the model's distribution, and the language
legal_logits     the tokens that a language leaves, at their own logits
weights          weights, their effective sample size, and their mean
resampling       which particles are copied
tokens_needed    the least number of tokens to the end, for twisted proposals
result           Particles: texts with weights
"""

from logitkit.particles.particle_filter import ParticleFilter as ParticleFilter
from logitkit.particles.population import Population as Population
from logitkit.particles.resampling import ancestors as ancestors
from logitkit.particles.result import Particles as Particles
from logitkit.particles.weights import effective_sample_size as effective_sample_size

__all__ = ["ParticleFilter", "Particles", "Population", "ancestors", "effective_sample_size"]
