"""Beam search over `LLM.generate`: vLLM's own drops what requests ask for, and ranks by what the model says without it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.parameters.integers import checked_integer
from logitkit.parameters.reals import checked_real
from logitkit_adapters.vllm.engine import engine_vocabulary
from logitkit_adapters.vllm.parameters import KEY, PROMPT_LENGTH, asked, configuration

__all__ = ["Beam", "beam_search"]


@dataclass(frozen=True, slots=True)
class Beam:
    """A continuation of a prompt.

    Args:
        token_ids: What it says, up to EOS and with it.
        logprob: Sum of the logarithms of its tokens' probabilities, after all processors.
        finished: Whether it has come to EOS.
        text: What its tokens spell, special ones left out.
    """

    token_ids: tuple[int, ...]
    logprob: float
    finished: bool = False
    text: str = field(default="", compare=False)

    def score(self, length_penalty: float) -> float:
        """Return what beams are ranked by: `logprob`, divided by a power of the number of tokens."""
        return self.logprob / float(max(len(self.token_ids), 1) ** length_penalty)


def beam_search(
    llm: Any,
    prompts: Sequence[str | Sequence[int]],
    *,
    beam_width: int,
    max_tokens: int,
    config: Mapping[str, Any] | str | None = None,
    length_penalty: float = 1.0,
) -> list[list[Beam]]:
    """Return the best continuations of each prompt under what the configuration asks for, best first.

    Each step asks the engine for one more token of every beam of every prompt, all at once. What beams share comes from the
    engine's cache of prefixes, where that is on.

    Args:
        llm: vLLM's `LLM`, made with `logprobs_mode="processed_logprobs"`: else beams are ranked as if nothing were asked for.
        prompts: Texts or token ids.
        beam_width: How many beams are followed, and returned, from 1. The engine's `max_logprobs` must be twice that.
        max_tokens: Most tokens of a continuation, from 1.
        config: What requests ask for, as in `extra_args["logitkit"]`.
        length_penalty: 0 ranks beams by their logprob, 1 by its mean; more favours longer ones.

    Returns:
        For each prompt up to `beam_width` beams; unfinished ones have `max_tokens` tokens.

    Raises:
        ConfigurationError: An argument is not of its range or form, or the engine is configured otherwise.
    """
    width = checked_integer("beam_width", beam_width, 1, 10_000)
    steps = checked_integer("max_tokens", max_tokens, 1, 2**31 - 1)
    power = checked_real("length_penalty", length_penalty, -100, 100, "0 ranks by logprob")
    _check_engine(llm, width)
    # To the engine, the most new tokens are one.
    what = asked(SimpleNamespace(extra_args={KEY: config}, max_tokens=steps))
    whole = None if what is None else configuration(what)
    tokenizer = llm.get_tokenizer()
    begins = [tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt) for prompt in prompts]
    ends = frozenset(engine_vocabulary(llm.llm_engine.vllm_config).eos_ids)
    live: list[list[Beam]] = [[Beam((), 0.0)] for _ in begins]
    done: list[list[Beam]] = [[] for _ in begins]
    for _ in range(steps):
        going_on = [(number, beam) for number, beams in enumerate(live) for beam in beams]
        if not going_on:
            break
        followed: list[list[Beam]] = [[] for _ in begins]
        for (number, beam), likely in zip(going_on, _next(llm, begins, going_on, width, whole), strict=True):
            followed[number] += [_longer(beam, token, logprob, ends) for token, logprob in likely.items()]
        for number, beams in enumerate(followed):
            # As many as might end, and as many again.
            best = sorted(beams, key=lambda beam: -beam.logprob)[: 2 * width]
            done[number] += [beam for beam in best if beam.finished]
            live[number] = [beam for beam in best if not beam.finished][:width]
    found = []
    for finished, unfinished in zip(done, live, strict=True):
        ranked = sorted([*finished, *unfinished], key=lambda beam: -beam.score(power))[:width]
        found.append([_spelled(beam, tokenizer) for beam in ranked])
    return found


def _check_engine(llm: Any, width: int) -> None:
    model = llm.llm_engine.vllm_config.model_config
    if model.logprobs_mode != "processed_logprobs":
        raise ConfigurationError(
            f"the engine has logprobs_mode={model.logprobs_mode!r}, by which beams would be ranked as if nothing were asked for; "
            'make it with LLM(..., logprobs_mode="processed_logprobs")'
        )
    if 0 <= model.max_logprobs < 2 * width:
        raise ConfigurationError(
            f"beam_width is {width}, and the engine gives {model.max_logprobs} logprobs of a token; make it with LLM(..., "
            f"max_logprobs={2 * width})"
        )


def _next(
    llm: Any, begins: Sequence[list[int]], going_on: Sequence[tuple[int, Beam]], width: int, config: Any
) -> list[dict[int, float]]:
    """Return the likeliest next tokens of each beam, and the logarithms of their probabilities."""
    from vllm import SamplingParams

    prompts, params = [], []
    for number, beam in going_on:
        prompts.append({"prompt_token_ids": [*begins[number], *beam.token_ids]})
        # What a beam has said is its output, although vLLM takes it for a prompt.
        ours = {} if config is None else {KEY: config, PROMPT_LENGTH: len(begins[number])}
        params.append(
            SamplingParams(max_tokens=1, temperature=0.0, logprobs=2 * width, detokenize=False, extra_args=ours or None)
        )
    outputs = llm.generate(prompts, params, use_tqdm=False)
    return [
        {token: found.logprob for token, found in output.outputs[0].logprobs[0].items() if math.isfinite(found.logprob)}
        for output in outputs
    ]


def _longer(beam: Beam, token: int, logprob: float, ends: frozenset[int]) -> Beam:
    return Beam((*beam.token_ids, token), beam.logprob + logprob, token in ends)


def _spelled(beam: Beam, tokenizer: Any) -> Beam:
    text = tokenizer.decode(list(beam.token_ids), skip_special_tokens=True)
    return Beam(beam.token_ids, beam.logprob, beam.finished, text)
