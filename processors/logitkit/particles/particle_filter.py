"""The particle filter: one step of all particles, on the logits of any engine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from logitkit.composition.engine_logits import EngineLogits
from logitkit.errors import BatchMismatch, ConfigurationError, NoParticleLeft
from logitkit.parameters.scalars import checked_integer, checked_real
from logitkit.parameters.token_ids import checked_ids
from logitkit.particles.legal_logits import legal_logits, stopped_rows
from logitkit.particles.population import Population
from logitkit.particles.resampling import SCHEMES, ancestors
from logitkit.particles.target import Target
from logitkit.particles.tokens_needed import TokensNeeded
from logitkit.particles.weights import effective_sample_size
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor
from logitkit.sessions.token_choice import drawn_tokens
from logitkit.training.log_sums import log_sums

__all__ = ["ParticleFilter"]

# Particles, and tokens of a text.
MOST = 2**31 - 1
MOST_TWIST = 100.0

# Equal weights are not resampled because of rounding.
ROUNDED = 1 - 1e-9


@dataclass(frozen=True, kw_only=True)
class ParticleFilter:
    r"""Sample a model's texts, given that they are in a language, with particles that grow together.

    At each step, a particle's weight is multiplied by the probability of all tokens that the constraints allow. If the effective
    sample size of the weights falls below a part of the particles, they are resampled. Then each particle draws one of its
    allowed tokens. A text is complete with EOS. One that is not complete after `max_new_tokens` tokens has weight 0.

    The target is the distribution of the logits after all processors but the constraints, given that the text with its EOS is in
    the language and has at most `max_new_tokens` tokens. So biases, penalties and temperatures are part of the model, wherever
    they stand in the chain. A text that a stop ends needs no EOS: the stop takes its place.

    Args:
        processor: A processor, or a chain of several. None: all texts of at most `max_new_tokens` tokens.
        eos_ids: The ids that end a text, at least one.
        particles: The number of particles, N.
        resample: Resample if the effective sample size is below this part of N, from 0 (never) to 1.
        resampling: "systematic" or "multinomial".
        seed: From 0 to 2**63 - 1.
        twist: How much each token that a text still needs counts against it, in nats, while particles are drawn and resampled; 0
            for nothing. It needs a constraint that knows how many: a finite automaton, such as `Regex`, or one with `closing`.
            The final weights are corrected, so the target is the same.

    Raises:
        ConfigurationError: The processor has a truncation, a watermark, or a processor without a role; an argument is not in
            range; or `twist` is given, but no constraint knows how many tokens its texts need.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
        >>> regex = lk.Regex("ab|ba|aa", vocabulary)
        >>> particles = lk.particles.ParticleFilter(processor=regex, eos_ids=[2], particles=100, seed=3)
        >>> population = particles.start([], columns=3, max_new_tokens=5)
        >>> logits = torch.tensor([0.5, 0.3, 0.2]).log().repeat(100, 1)  # of a model that ignores the text
        >>> while not population.is_done:
        ...     population = particles.step(population, logits.clone())
        >>> population  # the probability of the language is (0.5 * 0.3 * 2 + 0.5 * 0.5) * 0.2 = 0.11
        Population(100 particles, 3 tokens, 100 ended, probability=0.114)

    Source: Lew and others, Sequential Monte Carlo Steering of Large Language Models using Probabilistic Programs, 2023,
        https://arxiv.org/abs/2306.03081; Loula and others, Syntactic and Semantic Control of Large Language Models via Sequential
        Monte Carlo, 2025, https://arxiv.org/abs/2504.13139.
    """

    processor: Processor[Any] | None
    eos_ids: Collection[int]
    particles: int = 16
    resample: float = 0.5
    resampling: str = "systematic"
    seed: int = 0
    twist: float = 0.0
    target: Target = field(init=False, repr=False, compare=False)
    tokens_needed: TokensNeeded | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checked_integer("particles", self.particles, 1, MOST)
        checked_integer("seed", self.seed, 0, 2**63 - 1)
        checked_real("resample", self.resample, 0, 1, "0 never resamples, and 1 at every step")
        checked_real("twist", self.twist, 0, MOST_TWIST, "0 changes nothing")
        if self.resampling not in SCHEMES:
            raise ConfigurationError(f"resampling is {self.resampling!r}; allowed are 'systematic' and 'multinomial'")
        object.__setattr__(self, "eos_ids", checked_ids("eos_ids", self.eos_ids))
        if not self.eos_ids:
            raise ConfigurationError("eos_ids is empty, so no text would be complete; give at least one id")
        object.__setattr__(self, "target", Target.of(self.processor))
        needed = TokensNeeded(self.target.language) if self.twist else None
        object.__setattr__(self, "tokens_needed", needed)

    def start(
        self, prompt: Sequence[int], columns: int, max_new_tokens: int, device: torch.device | str = "cpu"
    ) -> Population:
        """Return the particles after a prompt.

        Args:
            prompt: The tokens of the prompt, which may be none.
            columns: The number of columns of the logits.
            max_new_tokens: The maximum number of tokens of a text, without EOS.
            device: The device of the logits.

        Raises:
            ConfigurationError: `max_new_tokens` is not an integer from 0, or the logits have no column for an EOS.
        """
        checked_integer("max_new_tokens", max_new_tokens, 0, MOST)
        if max(self.eos_ids) >= columns:
            raise ConfigurationError(
                f"eos_ids contains {max(self.eos_ids)}, but the logits have {columns} columns; give token ids of the model"
            )
        context = Context.of([list(prompt)] * self.particles, columns, device, len(prompt) + max_new_tokens)
        context = replace(context, max_lengths=context.limits, stream_ids=context.streams)
        model, language = self.target.model.init_state(context), self.target.language.init_state(context)
        return Population.start(context, model, language)

    def step(self, population: Population, logits: Tensor) -> Population:
        """Return the particles after one more token each.

        If `rows` of the result is not None, the particles were resampled: reorder the caches of the engine by it, before its next
        step.

        Args:
            population: The particles, which have not all ended.
            logits: [N, V] the logits of the model after the tokens of each particle, which may be overwritten; those of particles
                that have ended mean nothing.

        Raises:
            BatchMismatch: The logits have another shape.
            BrokenLogits: The logits of a particle are broken.
            NoParticleLeft: All particles have weight 0.
        """
        expected = (self.particles, population.context.vocabulary_size)
        if tuple(logits.shape) != expected:
            raise BatchMismatch(
                f"logits have shape {list(logits.shape)}, but the particles need {list(expected)}; give one row for each particle"
            )
        ended, eos_ids = population.ended, list(self.eos_ids)
        logits = logits.masked_fill(ended[:, None], 0.0)
        if logits.dtype not in (torch.float32, torch.float64):
            logits = logits.to(torch.float32)
        process = EngineLogits(self.target.model)
        logits = process(population.model_state, logits, population.context, eos_ids)
        process.raise_broken()
        legal, gained, after = self._proposal(population, logits)
        weights = population.log_weights + torch.where(ended, 0.0, gained)
        population = population.weighed(weights, effective_sample_size(weights))
        step = population.tokens.shape[1]
        if not population.effective_sample_sizes[-1]:
            raise NoParticleLeft(self.particles, step, self._limit(population))
        is_last = step == self._limit(population)
        if not is_last and population.effective_sample_sizes[-1] < self.resample * self.particles * ROUNDED:
            rows = ancestors(
                weights,
                self.resampling,
                seed=self.seed,
                stream=self.particles,
                position=int(population.context.lengths[0]),
            )
            population, legal = population.taken(rows), legal[rows]
            after = None if after is None else after[rows]
        return self._drawn(population, legal, after)

    def _proposal(self, population: Population, logits: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the logits to draw from, [N, V], the gain of each weight, [N] float64, and what each token adds to a twist."""
        target, context = self.target, population.context
        state = population.language_state
        legal = legal_logits(target.language, state, logits, context, list(self.eos_ids))
        stopped = stopped_rows(target.language, state, population.ended)
        ends = torch.zeros_like(legal[0], dtype=torch.bool)
        ends[list(self.eos_ids)] = True
        only_end = stopped | (population.tokens.shape[1] == self._limit(population))
        legal = legal.masked_fill(only_end[:, None] & ~ends, -torch.inf)
        sums = log_sums(logits)
        gained = log_sums(legal).less(sums).to(torch.float64)
        # A stop that is legal is certain: no EOS is drawn.
        gained = torch.where(stopped & (gained > -torch.inf), 0.0, gained)
        if self.tokens_needed is None:
            return legal, gained, None
        # EOS needs nothing, so the twists of complete texts are all 0.
        needed = self.tokens_needed(state, legal.shape[1])
        after = (needed * -self.twist).to(legal.device, legal.dtype).masked_fill(ends, 0.0)
        twisted = legal + after
        gained = torch.where(stopped, gained, log_sums(twisted).less(sums).to(torch.float64))
        return twisted, gained - population.log_twists, after

    def _drawn(self, population: Population, legal: Tensor, after: Tensor | None) -> Population:
        """Return the particles after a token of each that goes on."""
        going = ~population.ended & (population.log_weights > -torch.inf)
        context = population.context
        scores = legal.masked_fill(~going[:, None], 0.0)
        tokens = torch.where(going, drawn_tokens(scores, self.seed, context.streams, context.lengths), -1)
        is_end = torch.isin(tokens, torch.tensor(list(self.eos_ids), device=tokens.device))
        twists = population.log_twists
        if after is not None:
            twists = torch.where(going, after.gather(1, tokens.clamp(min=0)[:, None])[:, 0].to(torch.float64), twists)
        return population.grown(
            tokens,
            is_end,
            twists,
            self.target.model.advance(population.model_state, tokens),
            self.target.language.advance(population.language_state, tokens),
        )

    def _limit(self, population: Population) -> int:
        """Return the maximum number of tokens of a text."""
        assert population.context.max_length is not None
        return population.context.max_length - int(population.context.prompt_lengths[0])
