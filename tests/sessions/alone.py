"""The output of an engine's own `generate` for a prompt, without a session."""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import Any

import torch

import logitkit as lk
from logitkit.sessions.token_choice import drawn_tokens
from tests.sessions.engines import loaded


def alone(name: str, prompt: list[int], count: int, processor: Any = None, model: Any = None) -> list[int]:
    """Return the new tokens of the engine's own greedy search, EOS included."""
    own = {
        "transformers": by_transformers,
        "mlx-lm": by_mlx_lm,
        "llama.cpp": by_llama_cpp,
        "onnxruntime-genai": by_onnxruntime_genai,
    }
    return own[name](loaded(name)[0] if model is None else model, prompt, count, processor)


def by_transformers(model: Any, prompt: list[int], count: int, processor: Any, **options: Any) -> list[int]:
    from logitkit_adapters.transformers import logits_processor

    ids = torch.tensor([prompt])
    hooks = [] if processor is None else [logits_processor(processor)]
    output = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=count,
        logits_processor=hooks,
        **options,
    )
    found: list[int] = output[0, len(prompt) :].tolist()
    return found


def by_mlx_lm(model: Any, prompt: list[int], count: int, processor: Any, **options: Any) -> list[int]:
    import mlx.core as mx
    from mlx_lm.generate import generate_step

    from logitkit_adapters.mlx_lm import logits_processor

    hooks: Any = [] if processor is None else [logits_processor(processor)]
    found: list[int] = []
    for token, _ in generate_step(mx.array(prompt), model, max_tokens=count, logits_processors=hooks, **options):
        found.append(int(token))
        if token in loaded("mlx-lm")[1].eos_token_ids:
            break
    return found


@cache
def second_llama() -> Any:
    """Return another `Llama`, so that nothing is cached by the one that a session uses."""
    import llama_cpp

    from logitkit_adapters.demo import gguf_path

    return llama_cpp.Llama(
        str(gguf_path()), n_ctx=512, n_threads=1, n_threads_batch=1, type_k=0, type_v=0, verbose=False
    )


def by_llama_cpp(model: Any, prompt: list[int], count: int, processor: Any) -> list[int]:
    from logitkit_adapters.llama_cpp import logits_processor

    llama = second_llama()
    llama.n_tokens = 0
    hooks = None if processor is None else logits_processor(processor)
    found: list[int] = []
    for token in islice(llama.generate(prompt, temp=0, logits_processor=hooks), count):
        found.append(token)
        if token == llama.token_eos():
            break
    return found


def drawn(seed: int) -> lk.Stateless:
    """Return what leaves the token only that a session draws in its first row."""

    def only(logits: torch.Tensor, context: lk.Context) -> torch.Tensor:
        stream = torch.zeros_like(context.lengths)
        token = drawn_tokens(logits, seed, stream, context.lengths)
        return torch.full_like(logits, -torch.inf).scatter_(1, token[:, None], 0.0)

    return lk.Stateless(only)


def by_onnxruntime_genai(model: Any, prompt: list[int], count: int, processor: Any) -> list[int]:
    import numpy as np
    import onnxruntime_genai as og

    from logitkit_adapters.onnxruntime_genai import generate

    if processor is not None:
        return generate(model, None, prompt, processor, max_new_tokens=count).token_ids[0]
    parameters: Any = og.GeneratorParams(model)
    parameters.set_search_options(max_length=len(prompt) + count)
    generator: Any = og.Generator(model, parameters)
    generator.append_tokens(np.array(prompt, np.int32))
    found: list[int] = []
    while not generator.is_done():
        generator.generate_next_token()
        found.append(int(generator.get_next_tokens()[0]))
    return found
