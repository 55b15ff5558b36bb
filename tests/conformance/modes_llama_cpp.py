"""The decode modes of llama.cpp, through llama-cpp-python."""

from __future__ import annotations

from itertools import islice
from typing import Any

import torch

import logitkit as lk
from logitkit_adapters.llama_cpp import logits_processor
from tests.adapters.demo_llama_cpp import llama
from tests.conformance.engines import LlamaCpp, until_eos
from tests.conformance.modes_transformers import STEPS
from tests.conformance.replay import Replay


def greedy(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    return LlamaCpp().generate([prompt], processor, STEPS)[0]


def sampled(prompt: list[int], processor: lk.Processor[Any]) -> None:
    replay = Replay(processor, prompt)

    def before(_: Any, scores: Any) -> Any:
        replay.before(torch.from_numpy(scores)[None])
        return scores

    def behind(ids: Any, scores: Any) -> Any:
        replay.behind([ids.tolist()], torch.from_numpy(scores)[None])
        return scores

    hooks = logits_processor(processor)
    hooks.insert(0, before)
    hooks.append(behind)
    llama().set_seed(0)
    tokens = llama().generate(prompt, temp=1.0, logits_processor=hooks)
    list(islice(tokens, STEPS))
    tokens.close()
    assert replay.calls


def streamed(prompt: list[int], processor: lk.Processor[Any]) -> str:
    parts = llama().create_completion(
        prompt, max_tokens=STEPS, temperature=0, stream=True, logits_processor=logits_processor(processor)
    )
    return "".join(part["choices"][0]["text"] for part in parts)


def resumed(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    def some(ids: list[int], hooks: Any, steps: int) -> list[int]:
        tokens = llama().generate(ids, temp=0, logits_processor=hooks)
        found = until_eos(list(islice(tokens, steps)))
        tokens.close()
        return found

    first = some(prompt, logits_processor(processor), 9)
    if len(first) < 9:
        return first
    return [*first, *some([*prompt, *first], logits_processor(processor, prompt=prompt), STEPS - 9)]
