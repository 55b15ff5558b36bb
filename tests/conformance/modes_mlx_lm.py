"""The decode modes of mlx-lm."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import torch
from mlx_lm.generate import stream_generate
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

    def before(_: Any, logits: Any) -> Any:
        replay.before(torch.tensor(logits.tolist()))
        return logits

    def behind(tokens: Any, logits: Any) -> Any:
        replay.behind([tokens.tolist()], torch.tensor(logits.tolist()))
        return logits

    plain(prompt, [before, logits_processor(processor), behind], max_tokens=STEPS, sampler=make_sampler(temp=1.0))
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
    first = plain(prompt, [logits_processor(processor)], max_tokens=9)
    if len(first) < 9:
        return first
    # All but the last token are in a cache, which hides them from the hook.
    ids = [*prompt, *first]
    hook = logits_processor(processor, prompt=prompt)
    rest = plain(ids, [hook], max_tokens=STEPS - 9)
    assert plain(ids[-1:], [logits_processor(processor, prompt=ids)], prompt_cache=cached(ids[:-1]), max_tokens=1)
    return [*first, *rest]
