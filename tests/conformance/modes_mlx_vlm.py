"""The decode modes of mlx-vlm, with the shipped model, which it runs without images."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_vlm.generate import stream_generate
from mlx_vlm.sample_utils import make_sampler

import logitkit as lk
from logitkit_adapters.mlx_vlm import logits_processor
from tests.adapters.demo_mlx_vlm import WHOLE, batch, cached, plain
from tests.adapters.vision_models import loaded
from tests.conformance.engines import until_eos
from tests.conformance.modes_transformers import STEPS
from tests.conformance.replay import Replay


def greedy(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    return plain(prompt, [logits_processor(processor)], max_tokens=STEPS, **WHOLE)


def sampled(prompt: list[int], processor: lk.Processor[Any]) -> None:
    mx.random.seed(0)
    replay = Replay(processor, prompt)
    plain(prompt, replay.around(logits_processor(processor)), max_tokens=STEPS, sampler=make_sampler(temp=1.0), **WHOLE)
    assert replay.calls


def batched(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    prompts = [prompt[1:], prompt, [*prompt, *prompt]]
    return until_eos(batch(prompts, [[logits_processor(processor)] for _ in prompts], max_tokens=STEPS)[1])


def streamed(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    # mlx-vlm shows the last token of the prompt.
    hooks = [logits_processor(processor, prompt=prompt)]
    parts = stream_generate(
        *loaded("shipped"), "", input_ids=mx.array([prompt]), max_tokens=STEPS, temperature=0.0, logits_processors=hooks
    )
    return list(parts)[-1].token_ids or []


def resumed(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    def told() -> Any:
        return [logits_processor(processor, prompt=prompt)]

    layers = cached(prompt[:-1])
    first = plain(prompt[-1:], told(), max_tokens=9, prompt_cache=layers)
    # mlx-vlm has computed one token ahead, which it did not return, so it does not belong to the text.
    for layer in layers:
        layer.trim(layer.offset - len(prompt) + 1)
    again = plain(prompt[-1:], told(), max_tokens=STEPS, prompt_cache=layers)
    assert again[: len(first)] == first
    if len(first) < 9:
        return first
    # The same text from its middle on: all of it shown, from wherever the output begins.
    for length in (1, 9):
        rest = plain([*prompt, *first[:length]], told(), max_tokens=STEPS - length, **WHOLE)
        assert [*first[:length], *rest] == again
    return again
