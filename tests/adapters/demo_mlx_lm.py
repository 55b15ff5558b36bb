"""The shipped model in mlx-lm, loaded once, and every way in which mlx-lm generates text with it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import mlx.core as mx
import mlx_lm
from mlx.utils import tree_map
from mlx_lm.generate import BatchGenerator, generate_step, speculative_generate_step
from mlx_lm.models.cache import make_prompt_cache

from logitkit_adapters.demo import model_dir

LIMIT = 90  # more tokens than any text of a test has characters, and EOS

Hooks = Sequence[Callable[[Any, Any], Any]]


@cache
def loaded() -> tuple[Any, Any]:
    model, tokenizer = mlx_lm.load(str(model_dir()))[:2]
    return model, tokenizer


def model() -> Any:
    return loaded()[0]


def tokenizer() -> Any:
    return loaded()[1]


@cache
def in_bfloat16() -> Any:
    other = copy.deepcopy(model())
    other.set_dtype(mx.bfloat16)
    return other


@cache
def noisy_model() -> Any:
    """A draft model that drafts badly."""
    other, key = copy.deepcopy(model()), mx.random.key(0)
    other.update(tree_map(lambda w: w + mx.random.normal(w.shape, key=key) * mx.std(w) * 0.3, other.parameters()))
    return other


def cached(ids: Sequence[int]) -> list[Any]:
    """A prompt cache that holds these tokens."""
    layers: list[Any] = make_prompt_cache(model())
    if len(ids):
        model()(mx.array(list(ids))[None], cache=layers)
    return layers


def until_eos(tokens: Any) -> list[int]:
    """The ids that a generator of mlx-lm yields, up to EOS and with it."""
    found = []
    for token, *_ in tokens:
        found.append(int(token))
        if found[-1] in tokenizer().eos_token_ids:
            break
    tokens.close()
    return found


def plain(prompt: list[int], hooks: Hooks, **options: Any) -> list[int]:
    settings = {"max_tokens": LIMIT, "logits_processors": list(hooks), **options}
    return until_eos(generate_step(mx.array(prompt), settings.pop("model", model()), **settings))


def speculative(prompt: list[int], hooks: Hooks, draft: Any, **options: Any) -> list[int]:
    settings = {"max_tokens": LIMIT, "logits_processors": list(hooks), **options}
    return until_eos(speculative_generate_step(mx.array(prompt), model(), draft, **settings))


def batch(prompts: list[list[int]], hooks: list[Hooks], **options: Any) -> list[list[int]]:
    """The output of `BatchGenerator`, with hooks for each prompt."""
    stops = [[i] for i in tokenizer().eos_token_ids]
    arguments = {name: options.pop(name) for name in ("caches", "samplers") if name in options}
    generator = BatchGenerator(model(), stop_tokens=stops, **{"max_tokens": LIMIT, **options})
    ids = generator.insert(prompts, logits_processors=[list(h) for h in hooks], **arguments)
    found: dict[int, list[int]] = {i: [] for i in ids}
    while responses := generator.next_generated():
        for response in responses:
            found[response.uid].append(response.token)
    generator.close()
    return [found[i] for i in ids]
