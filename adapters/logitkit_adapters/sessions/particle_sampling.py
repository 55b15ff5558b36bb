"""Sampling with particles: a batch of rows with one cache, which is reordered when particles are resampled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from logitkit.composition.engine_vocabulary import check_ends, vocabulary_ends
from logitkit.errors import ConfigurationError
from logitkit.output_types import output_type_of
from logitkit.parameters.scalars import checked_integer
from logitkit.particles import ParticleFilter, Particles, Population
from logitkit.protocol.processor import is_processor
from logitkit.sessions.sequence_state import SequenceState
from logitkit.sessions.text_continuation import added_text
from logitkit.sessions.text_tokenizer import TextTokenizer
from logitkit_adapters.sessions.batch import BatchEngine
from logitkit_adapters.sessions.engines import batch_engine_of, check_tokens, vocabulary_of
from logitkit_adapters.sessions.generator_options import tokens_to_add
from logitkit_adapters.sessions.initial_state import initial_state
from logitkit_adapters.sessions.prompts import Prompt
from logitkit_adapters.sessions.sampling_options import refuse_sampling_options

__all__ = ["sample"]

MOST_TOKENS = 2**31 - 1
OPTIONS = ("particles", "resample", "max_new_tokens", "seed", "resampling", "twist", "make_cache", "processor")


def sample(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    processor: Any = None,
    particles: int = 16,
    resample: float = 0.5,
    *,
    max_new_tokens: int | None = None,
    seed: int | None = None,
    resampling: str = "systematic",
    twist: float = 0.0,
    make_cache: Callable[[], Any] | None = None,
    **options: Any,
) -> Particles:
    r"""Sample texts of a model, given that they are in the language of a processor's constraints.

    Masking token by token samples another distribution: it does not see that a likely token leads to unlikely texts. Here,
    several texts grow together, each with a weight, and the weighted texts approach the distribution of the model given the
    language, as the number of particles grows.

    The target is the distribution of the logits after all processors but the constraints, given that the text with its EOS is in
    the language and has at most `max_new_tokens` tokens. So biases, penalties and temperatures are part of the model, wherever
    they stand in the chain.

    All particles run in one batch, with the prompt fed once. Where the engine runs rows one by one, so do the particles.

    Args:
        model: A model of transformers, mlx-lm or mlx-vlm, a `llama_cpp.Llama` or an `onnxruntime_genai.Model`.
        tokenizer: Its tokenizer; llama.cpp has its own.
        prompt: A text, token ids or a chat, as for `continuous`: one prompt.
        processor: A processor, or anything else that `logitkit.output_types.output_type_of` accepts, such as a Python type, which
            gets `closing=True`. Truncations and watermarks are refused. None: all texts of at most `max_new_tokens` tokens.
        particles: The number of particles.
        resample: Resample if the effective sample size is below this part of the particles, from 0 (never) to 1.
        max_new_tokens: The maximum number of tokens of a text, without EOS. None: up to the model's last position.
        seed: From 0 to 2**63 - 1. None: a new seed for every call, from torch's random numbers.
        resampling: "systematic" or "multinomial".
        twist: How much each token that a text still needs counts against it, in nats, while particles are drawn and resampled; 0
            for nothing. It needs a constraint that knows how many: a finite automaton, such as `Regex`, or one with `closing`.
            The final weights are corrected, so the target is the same.
        make_cache: Returns the engine's empty cache, as for `continuous`.
        **options: None; `temperature` and the like raise an error that names the processor to use instead.

    Returns:
        The texts with their weights, the effective sample size of each step, and the estimate of the language's probability.

    Raises:
        BrokenLogits: The logits of the model have NaN or +inf.
        ConfigurationError: There are several prompts; the processor has a truncation, a watermark, or a processor without a role;
            the prompt with `max_new_tokens` exceeds the model's positions; or an argument is not in range.
        NoParticleLeft: All particles have weight 0.
        VocabularyError: The processor was built for another tokenizer.

    Example:
        >>> import re
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.transformers import particles
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer
        >>> model = AutoModelForCausalLM.from_pretrained(model_dir())
        >>> tokenizer = AutoTokenizer.from_pretrained(model_dir())
        >>> prompt = "Question: Is Paris in France?\nAnswer:"
        >>> found = particles.sample(model, tokenizer, prompt, re.compile(" (yes|no|maybe)"), seed=1)
        >>> found.best, len(found.texts)
        (' yes', 16)

    Source: Lew and others, Sequential Monte Carlo Steering of Large Language Models using Probabilistic Programs, 2023,
        https://arxiv.org/abs/2306.03081; Loula and others, Syntactic and Semantic Control of Large Language Models via Sequential
        Monte Carlo, 2025, https://arxiv.org/abs/2504.13139, whose library is genlm-control.
    """
    refuse_sampling_options(options, OPTIONS)
    if max_new_tokens is not None:
        checked_integer("max_new_tokens", max_new_tokens, 0, MOST_TOKENS)
    engine = batch_engine_of(model, tokenizer, make_cache)
    if processor is not None and not is_processor(processor):
        kind = output_type_of(processor, "processor")
        processor = kind.constraint(vocabulary_of(model, tokenizer), closing=True)
    check_tokens(processor, model, tokenizer)
    check_ends(processor, engine.eos_ids)
    particle_filter = ParticleFilter(
        processor=processor,
        eos_ids=sorted(engine.eos_ids | vocabulary_ends(processor)),
        particles=particles,
        resample=resample,
        resampling=resampling,
        seed=int(torch.randint(2**62, ())) if seed is None else seed,
        twist=twist,
    )
    with engine.lock:
        state = initial_state(engine, prompt)
        if len(state) != 1 or not state.rows[0]:
            raise ConfigurationError(f"{len(state)} prompts are given; give one prompt, with at least one token")
        limit = tokens_to_add(engine, len(state.rows[0]), max_new_tokens)
        population = _run(engine, state, particle_filter, limit)
    text_tokenizer, before = TextTokenizer(engine.tokenizer), state.rows[0]
    ends = {*particle_filter.eos_ids, -1}
    rows = [[token for token in row if token not in ends] for row in population.tokens.tolist()]
    return Particles.of(population, [added_text(before, row, text_tokenizer) for row in rows])


def _run(engine: BatchEngine, state: SequenceState, particle_filter: ParticleFilter, limit: int) -> Population:
    """Return the particles after their last step."""
    run = engine.run(state)
    logits = run.start()
    copies = torch.zeros(particle_filter.particles, dtype=torch.int64, device=logits.device)
    run.select(copies)
    population = particle_filter.start(state.rows[0], logits.shape[1], limit, logits.device)
    population = particle_filter.step(population, logits[copies])
    while not population.is_done:
        if population.rows is not None:
            run.select(population.rows)
        logits = run.step(population.last_tokens.clamp(min=0), ~population.ended)
        population = particle_filter.step(population, logits)
    return population
