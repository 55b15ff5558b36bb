"""Beam search over `LLM.generate`. vLLM's own beam search drops configurations, and ranks beams without them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.parameters.scalars import checked_integer, checked_real
from logitkit_adapters.admission.asked import KEY, configuration
from logitkit_adapters.vllm.configurations import configurations_of
from logitkit_adapters.vllm.parameters import PROMPT_LENGTH, asked

__all__ = ["Beam", "beam_search"]


@dataclass(frozen=True, slots=True)
class Beam:
    """A continuation of a prompt.

    Args:
        token_ids: Its tokens, up to and including EOS.
        logprob: The sum of its tokens' log probabilities, after all processors.
        finished: Whether it ends with EOS.
        text: Its text, without special tokens.
    """

    token_ids: tuple[int, ...]
    logprob: float
    finished: bool = False
    text: str = field(default="", compare=False)

    def score(self, length_penalty: float) -> float:
        """Return the score that ranks beams: `logprob`, divided by a power of the number of tokens."""
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
    """Return the best continuations of each prompt under a configuration, best first.

    Each step asks the engine for one more token of every beam of every prompt, all at once. The engine's prefix cache, if it is
    on, saves the computation of what beams share.

    Args:
        llm: vLLM's `LLM`, created with `logprobs_mode="processed_logprobs"`; otherwise it would rank beams without processors.
        prompts: Texts or lists of token ids.
        beam_width: The number of beams to follow and return, from 1. The engine's `max_logprobs` must be at least twice that.
        max_tokens: The maximum number of new tokens, from 1.
        config: The configuration of the requests, as in `extra_args["logitkit"]`.
        length_penalty: 0 ranks beams by their logprob, 1 by the mean logprob of a token; higher values favour longer beams.

    Returns:
        Up to `beam_width` beams for each prompt; unfinished ones have `max_tokens` tokens.

    Raises:
        ConfigurationError: An argument is out of range or malformed, or the engine is not configured as above.
    """
    width = checked_integer("beam_width", beam_width, 1, 10_000)
    steps = checked_integer("max_tokens", max_tokens, 1, 2**31 - 1)
    power = checked_real("length_penalty", length_penalty, -100, 100, "0 ranks by logprob")
    _check_engine(llm, width)
    # Read here, because the requests to the engine have `max_tokens=1`.
    what = asked(SimpleNamespace(extra_args={KEY: config}, max_tokens=steps))
    whole = None if what is None else configuration(what)
    tokenizer = llm.get_tokenizer()
    begins = [tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt) for prompt in prompts]
    ends = frozenset(configurations_of(llm.llm_engine.vllm_config).vocabulary.eos_ids)
    live: list[list[Beam]] = [[Beam((), 0.0)] for _ in begins]
    done: list[list[Beam]] = [[] for _ in begins]
    for _ in range(steps):
        going_on = [(number, beam) for number, beams in enumerate(live) for beam in beams]
        if not going_on:
            break
        followed: list[list[Beam]] = [[] for _ in begins]
        for (number, beam), likely in zip(going_on, _next(llm, begins, going_on, width, whole), strict=True):
            followed[number] += [
                Beam((*beam.token_ids, token), beam.logprob + logprob, token in ends)
                for token, logprob in likely.items()
            ]
        for number, beams in enumerate(followed):
            # If half of them end, there are still enough to go on.
            best = sorted(beams, key=lambda beam: -beam.logprob)[: 2 * width]
            done[number] += [beam for beam in best if beam.finished]
            live[number] = [beam for beam in best if not beam.finished][:width]
    found = []
    for finished, unfinished in zip(done, live, strict=True):
        ranked = sorted([*finished, *unfinished], key=lambda beam: -beam.score(power))[:width]
        texts = [tokenizer.decode(list(beam.token_ids), skip_special_tokens=True) for beam in ranked]
        found.append([replace(beam, text=text) for beam, text in zip(ranked, texts, strict=True)])
    return found


def _check_engine(llm: Any, width: int) -> None:
    model = llm.llm_engine.vllm_config.model_config
    if model.logprobs_mode != "processed_logprobs":
        raise ConfigurationError(
            f"the engine has logprobs_mode={model.logprobs_mode!r}, which would rank beams without the configuration; create it "
            'with LLM(..., logprobs_mode="processed_logprobs")'
        )
    if 0 <= model.max_logprobs < 2 * width:
        raise ConfigurationError(
            f"beam_width is {width}, but the engine returns at most {model.max_logprobs} logprobs per token; create it with "
            f"LLM(..., max_logprobs={2 * width})"
        )


def _next(
    llm: Any, begins: Sequence[list[int]], going_on: Sequence[tuple[int, Beam]], width: int, config: Any
) -> list[dict[int, float]]:
    """Return the most likely next tokens of each beam, with their log probabilities."""
    from vllm import SamplingParams

    prompts, params = [], []
    for number, beam in going_on:
        prompts.append({"prompt_token_ids": [*begins[number], *beam.token_ids]})
        # The tokens of a beam are output, although vLLM takes them for a part of the prompt.
        ours = {} if config is None else {KEY: config, PROMPT_LENGTH: len(begins[number])}
        params.append(
            SamplingParams(max_tokens=1, temperature=0.0, logprobs=2 * width, detokenize=False, extra_args=ours or None)
        )
    outputs = [output.outputs[0] for output in llm.generate(prompts, params, use_tqdm=False)]
    # vLLM ends a beam that is stuck in the middle of a text with EOS. Such a beam is dropped.
    return [
        {token: found.logprob for token, found in output.logprobs[0].items() if math.isfinite(found.logprob)}
        if output.finish_reason != "error"
        else {}
        for output in outputs
    ]
