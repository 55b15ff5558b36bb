"""Models whose prompts are fed into fixed-shape caches, and what they say without one."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, Qwen3Config

from logitkit_adapters.demo import model_dir
from logitkit_adapters.transformers import FixedCache, fixed_cache, prefill

SLOTS = 12
KINDS = ["demo-sdpa", "demo-eager", "gqa-sdpa", "gqa-eager"]


def model(kind: str = "demo-sdpa") -> Any:
    return loaded(kind)


@cache
def loaded(kind: str) -> Any:
    name, attention = kind.split("-")
    if name == "demo":
        return AutoModelForCausalLM.from_pretrained(model_dir(), attn_implementation=attention).eval()
    torch.manual_seed(0)
    # Six heads share two keys, positions turn faster than usual, and queries and keys are normed.
    config = Qwen3Config(
        vocab_size=97,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=16,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        initializer_range=0.5,
    )
    return AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()


def ids(rows: int = 2, length: int = 6, seed: int = 0) -> Tensor:
    return torch.randint(3, 97, (rows, length), generator=torch.Generator().manual_seed(seed))


def empty(kind: str = "demo-sdpa", rows: int = 2, slots: int = SLOTS) -> FixedCache:
    return fixed_cache(model(kind), rows, slots)


def feed(kind: str, tokens: Tensor, held: FixedCache, split: tuple[int, ...], **options: Any) -> FixedCache:
    for chunk in tokens.split(list(split), dim=1):
        held = prefill(model(kind), chunk, held, **options)
    return held


def expected(kind: str, tokens: Tensor) -> Tensor:
    """The model's logits after the last token when it gets all tokens at once, without a cache."""
    with torch.no_grad():
        return model(kind)(tokens, use_cache=False).logits[:, -1]  # type: ignore[no-any-return]


def layers(held: FixedCache) -> list[Any]:
    return list(held.cache.layers)


def tensors(held: FixedCache, slots: slice = slice(None)) -> list[Tensor]:
    return [t[:, :, slots].clone() for layer in layers(held) for t in (layer.keys, layer.values)]


def assert_same(one: FixedCache, other: FixedCache, slots: slice = slice(None)) -> None:
    torch.testing.assert_close(one.logits, other.logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(tensors(one, slots), tensors(other, slots), atol=1e-5, rtol=1e-5)
    assert torch.equal(one.slots, other.slots)
    assert one.length == other.length == int(one.cache.get_seq_length())
