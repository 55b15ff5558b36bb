"""The time of `generate` of transformers on a CUDA device, with a hook and without one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from benchmarks.cuda_comparison import DEVICE
from logitkit.runtime.step_graphs import StepGraphs

__all__ = ["SCHEMA", "generated", "without_graphs"]

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
        "place": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}},
    },
    "required": ["name", "tags"],
}


@contextmanager
def without_graphs() -> Iterator[None]:
    """Run steps operation by operation."""
    before, StepGraphs.enabled = StepGraphs.enabled, False
    try:
        yield
    finally:
        StepGraphs.enabled = before


def generated() -> dict[str, float]:
    """Return the time per token of `generate` of transformers with the model of the demo, in ms, by what it runs with."""
    import transformers

    from logitkit_adapters.demo import model_dir
    from logitkit_adapters.transformers import logits_processor

    model: Any = transformers.AutoModelForCausalLM.from_pretrained(model_dir())
    model.to(DEVICE)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_dir())
    inputs = tokenizer("The price of", return_tensors="pt").to(DEVICE)
    people = {"type": "array", "items": SCHEMA, "minItems": 9}
    with_hook = lambda: [logits_processor(people, tokenizer, model=model)]  # noqa: E731
    ways: dict[str, Callable[[], Any]] = {
        "without a hook": lambda: (nullcontext(), []),
        "with a hook": lambda: (nullcontext(), with_hook()),
        "with a hook, operation by operation": lambda: (without_graphs(), with_hook()),
        "without a hook again": lambda: (nullcontext(), []),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    texts = {}
    for turn in range(4):
        for name, way in ways.items():
            manager, hooks = way()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            with manager:
                ids = model.generate(
                    **inputs, do_sample=False, max_new_tokens=100, min_new_tokens=100, logits_processor=hooks
                )
            torch.cuda.synchronize()
            if turn:
                found[name].append((time.perf_counter() - begin) * 1e3 / (ids.shape[1] - inputs["input_ids"].shape[1]))
            texts[name] = ids.tolist()
    if texts["with a hook"] != texts["with a hook, operation by operation"]:
        raise SystemExit("generate wrote another text with graphs than operation by operation")
    return {name: statistics.median(times) for name, times in found.items()}
