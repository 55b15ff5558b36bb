"""`continuous` with models whose positions, windows or caches are of another kind, and untrained weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
import transformers
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

import logitkit as lk
from logitkit_adapters.sessions import Session, continuous
from tests.adapters.demo import tokenizer
from tests.sessions.alone import by_transformers
from tests.sessions.continuation import PROMPTS, fresh_logits, last_logits, lengths
from tests.sessions.engines import watched

SMALL: dict[str, Any] = {"vocab_size": 1280, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
LLAMA_LIKE: dict[str, Any] = {
    **SMALL,
    "intermediate_size": 48,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
CONFIGS: dict[str, Callable[[], Any]] = {
    "learned positions": lambda: transformers.GPT2Config(
        vocab_size=1280, n_embd=32, n_layer=2, n_head=4, n_positions=128, bos_token_id=1, eos_token_id=2
    ),
    "linear biases": lambda: transformers.BloomConfig(vocab_size=1280, hidden_size=32, n_layer=2, n_head=4),
    "sliding window": lambda: transformers.MistralConfig(**LLAMA_LIKE, sliding_window=5, head_dim=8),
    "alternating windows": lambda: transformers.Gemma2Config(**LLAMA_LIKE, sliding_window=5, head_dim=8),
    "offset positions": lambda: transformers.OPTConfig(
        **SMALL, ffn_dim=48, max_position_embeddings=128, word_embed_proj_dim=32, pad_token_id=0, bos_token_id=1
    ),
    "partly rotary": lambda: transformers.GPTNeoXConfig(**SMALL, intermediate_size=48, max_position_embeddings=128),
}


@cache
def model(kind: str) -> Any:
    torch.manual_seed(0)
    config = CONFIGS[kind]()
    config.eos_token_id = 2
    made = transformers.AutoModelForCausalLM.from_config(config).eval()
    # Untrained weights hardly tell tokens apart.
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3)
    return made


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("samples", [1, 2])
def test_slices_and_sums_equal_a_fresh_run(kind: str, samples: int) -> None:
    draw = continuous(model(kind), tokenizer(), num_samples=samples, seed=0)
    s = draw(PROMPTS, max_new_tokens=9)
    keys = (slice(None),) * (2 if samples > 1 else 1)
    for part in (s[(*keys, slice(9))], s.tokens[(*keys, slice(-3))], s + " and", s + s.tokens[(*keys, slice(0, 4))]):
        assert part.cached > 0
        with last_logits(model(kind)) as seen:
            draw(part, max_new_tokens=1)
        for row, logits in zip(part.rows, seen[-1], strict=True):
            torch.testing.assert_close(logits, fresh_logits(model(kind), row), rtol=0, atol=1e-4)
    assert draw(draw(PROMPTS, max_new_tokens=4), max_new_tokens=5).rows == s.rows


class Forgetful(DynamicLayer):
    """A layer that is not what transformers makes, so that nobody knows how to cut it."""


def forgetful() -> DynamicCache:
    made = DynamicCache()
    made.layer_class_to_replicate = Forgetful
    return made


CACHES: dict[str, tuple[str, Callable[[], Any]]] = {
    "window of 5": ("sliding window", lambda: DynamicCache(config=model("sliding window").config)),
    "unknown": ("partly rotary", forgetful),
    "static": (
        "partly rotary",
        lambda: transformers.StaticCache(config=model("partly rotary").config, max_cache_len=100),
    ),
}


@pytest.mark.parametrize("kind", CACHES)
def test_a_cache_that_cannot_be_cut_is_recomputed(kind: str) -> None:
    name, make_cache = CACHES[kind]
    text, plain = (continuous(model(name), tokenizer(), make_cache=make) for make in (make_cache, None))
    prompts = PROMPTS if kind != "window of 5" else PROMPTS[:1]
    s = text(prompts, max_new_tokens=8)
    assert s.rows == plain(prompts, max_new_tokens=8).rows
    for part in (s, s.tokens[:, :-3] if len(prompts) > 1 else s.tokens[:-3], s + " and", s + s):
        with watched(model(name)) as fed:
            found = text(part, max_new_tokens=3)
        assert found.rows == plain(part, max_new_tokens=3).rows
        # A state that is continued unchanged needs no cut.
        assert fed[0] == 1 or part is not s
    # Branches of one state do not meet in its cache.
    assert text(s, max_new_tokens=3).rows == text(s, max_new_tokens=3).rows
    one = text(PROMPTS[0], max_new_tokens=4)
    again = [text(one.fan_out(2), max_new_tokens=3, num_samples=2, seed=1).rows for _ in range(2)]
    assert again[0] == again[1]


# RoBERTa counts otherwise than `generate` where positions are not given; RoFormer takes none, and reads pads.
COUNTING: dict[str, Callable[[], Any]] = {
    "RoBERTa": lambda: transformers.RobertaForCausalLM(
        transformers.RobertaConfig(
            **SMALL, intermediate_size=48, max_position_embeddings=128, is_decoder=True, pad_token_id=0, eos_token_id=2
        )
    ),
    "RoFormer": lambda: transformers.RoFormerForCausalLM(
        transformers.RoFormerConfig(
            **SMALL, intermediate_size=48, max_position_embeddings=128, is_decoder=True, pad_token_id=0, eos_token_id=2
        )
    ),
}


@pytest.mark.parametrize("kind", COUNTING)
def test_models_that_count_positions_in_their_own_way_write_what_generate_writes(kind: str) -> None:
    torch.manual_seed(0)
    made = COUNTING[kind]().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(2)
    wanted = [by_transformers(made, tokenizer()(prompt).input_ids, 6, None) for prompt in PROMPTS]
    text = continuous(made, tokenizer())
    for state in (text(PROMPTS, max_new_tokens=6), text(text(PROMPTS, max_new_tokens=2), max_new_tokens=4)):
        assert [list(row[-6:]) for row in state.rows] == wanted
        part = state[:, :8] + " and"
        gained = text(part, max_new_tokens=4).weights - part.weights
        for row, ids in enumerate(part.rows):
            alone = text(list(ids), max_new_tokens=4).weights
            torch.testing.assert_close(gained[row], alone[0], rtol=0, atol=1e-4)
    with Session(made, tokenizer()) as session:
        for prompt, tokens in zip(PROMPTS, wanted, strict=True):
            ids = tokenizer()(prompt).input_ids
            assert session.generate(ids, max_new_tokens=2).token_ids == [tokens[:2]]
            assert session.generate([*ids, *tokens[:2]], max_new_tokens=4).token_ids == [tokens[2:]]


def test_positions_do_not_run_out_unnoticed() -> None:
    text = continuous(model("learned positions"), tokenizer())
    s = text(PROMPTS, max_new_tokens=100)
    with pytest.raises(lk.errors.ConfigurationError, match=r"120 tokens and max_new_tokens=10 .* 128 positions"):
        text(s, max_new_tokens=10)
    assert lengths(text(s, max_new_tokens=8))[0] == 128
    assert max(lengths(text(s))) <= 128
