"""The decode modes of mlx-lm."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.generate import stream_generate
from mlx_lm.models.cache import trim_prompt_cache
from mlx_lm.sample_utils import make_sampler

import logitkit as lk
from logitkit_adapters.mlx_lm import logits_processor
from tests.adapters.demo_mlx_lm import batch, cached, loaded, noisy_model, plain
from tests.adapters.demo_mlx_lm import speculative as with_drafts
from tests.conformance.engines import until_eos
from tests.conformance.modes_transformers import STEPS
from tests.conformance.replay import Replay


def greedy(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    return plain(prompt, [logits_processor(processor)], max_tokens=STEPS)


def sampled(prompt: list[int], processor: lk.Processor[Any]) -> None:
    mx.random.seed(0)
    replay = Replay(processor, prompt)
    plain(prompt, replay.around(logits_processor(processor)), max_tokens=STEPS, sampler=make_sampler(temp=1.0))
    assert replay.calls


def batched(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    prompts = [prompt[1:], prompt, [*prompt, *prompt]]
    return until_eos(batch(prompts, [[logits_processor(processor)] for _ in prompts], max_tokens=STEPS)[1])


def speculative(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    return with_drafts(prompt, [logits_processor(processor, prompt=prompt)], noisy_model(), max_tokens=STEPS)


def streamed(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    parts = stream_generate(*loaded(), prompt, max_tokens=STEPS, logits_processors=[logits_processor(processor)])
    return [part.token for part in parts]


def resumed(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    def told() -> Any:
        return [logits_processor(processor, prompt=prompt)]

    layers = cached(prompt[:-1])
    first = plain(prompt[-1:], told(), max_tokens=9, prompt_cache=layers)
    # mlx-lm has computed one token ahead, which it did not return, so it does not belong to the text.
    trim_prompt_cache(layers, layers[0].offset - len(prompt) + 1)
    again = plain(prompt[-1:], told(), max_tokens=STEPS, prompt_cache=layers)
    assert again[: len(first)] == first
    if len(first) < 9:
        return first
    # The same text from its middle on: all of it shown, from wherever the output begins.
    for length in (1, 9):
        rest = plain([*prompt, *first[:length]], told(), max_tokens=STEPS - length)
        assert [*first[:length], *rest] == again
    return again
