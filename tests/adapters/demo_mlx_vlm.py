"""The ways in which mlx-vlm generates text with token ids: the shipped model, and the tiny ones that take images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_vlm.generate import BatchGenerator, generate_step
from mlx_vlm.models.cache import make_prompt_cache
from mlx_vlm.prompt_utils import apply_chat_template
from mlx_vlm.utils import prepare_inputs
from PIL import Image

from tests.adapters.demo_mlx_lm import LIMIT, Hooks
from tests.adapters.vision_models import loaded

__all__ = ["batch", "cached", "inputs", "plain", "text_with_images"]

# With it, mlx-vlm shows hooks the whole prompt.
WHOLE: dict[str, Any] = {"prefill_step_size": None}


def until_eos(tokens: Any, ends: Sequence[int]) -> list[int]:
    """The ids that a generator of mlx-vlm yields, up to EOS and with it."""
    found = []
    for token, *_ in tokens:
        found.append(int(token))
        if found[-1] in ends:
            break
    tokens.close()
    return found


def plain(prompt: Sequence[int] | dict[str, Any], hooks: Hooks, kind: str = "shipped", **options: Any) -> list[int]:
    """The output of `generate_step`, greedy unless the options say otherwise; the prompt is ids, or inputs with images."""
    model, processor = loaded(kind)
    given: dict[str, Any] = dict(prompt) if isinstance(prompt, dict) else {"input_ids": mx.array([list(prompt)])}
    names = ("input_ids", "pixel_values", "attention_mask")
    ids, pixels, mask = (given.pop(name, None) for name in names)
    settings = {"max_tokens": LIMIT, "temperature": 0.0, "logits_processors": list(hooks), **options}
    ends = getattr(processor, "tokenizer", processor).stopping_criteria.eos_token_ids
    return until_eos(generate_step(ids, model, pixels, mask, **given, **settings), ends)


def cached(ids: Sequence[int], kind: str = "shipped") -> list[Any]:
    """A prompt cache that holds these tokens."""
    language = loaded(kind)[0].language_model
    layers: list[Any] = make_prompt_cache(language)
    if len(ids):
        mx.eval(language(mx.array([list(ids)]), cache=layers).logits)
    return layers


def embedded(prompt: Sequence[int], kind: str) -> dict[str, Any]:
    """The inputs of a prompt's ids in a batch, which mlx-vlm takes embedded."""
    ids = mx.array([list(prompt)])
    found = loaded(kind)[0].get_input_embeddings(ids, None, mask=mx.ones_like(ids)).to_dict()
    return {name: value for name, value in found.items() if value is not None}


def batch(prompts: list[list[int]], hooks: list[Hooks], kind: str = "shipped", **options: Any) -> list[list[int]]:
    """The output of `BatchGenerator`, with hooks for each prompt."""
    model, processor = loaded(kind)
    generator = BatchGenerator(model.language_model, processor, **{"max_tokens": LIMIT, **options})
    given = [embedded(prompt, kind) for prompt in prompts]
    ids = generator.insert(prompts, prompt_kwargs=given, logits_processors=[list(h) for h in hooks])
    found: dict[int, list[int]] = {i: [] for i in ids}
    while generator.has_work:
        for response in generator.next()[1]:
            found[response.uid].append(response.token)
    generator.close()
    return [found[i] for i in ids]


def text_with_images(kind: str, text: str, count: int = 1) -> str:
    """A prompt in which mlx-vlm puts the places of images."""
    model, processor = loaded(kind)
    found = apply_chat_template(processor, model.config, text, num_images=count)
    return str(found)


def inputs(kind: str, text: str, *images: Image.Image) -> dict[str, Any]:
    """The inputs of a prompt with images, as `generate` prepares them."""
    model, processor = loaded(kind)
    index = getattr(model.config, "image_token_index", None)
    found: dict[str, Any] = prepare_inputs(
        processor,
        images=list(images),
        prompts=text_with_images(kind, text, len(images)),
        image_token_index=index,
        add_special_tokens=True,
    )
    return found
