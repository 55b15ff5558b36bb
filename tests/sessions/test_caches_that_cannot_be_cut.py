"""Sliding windows, quantised and chunked caches: what comes out is what comes out without a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llama_cpp
import pytest
import torch
import transformers
from mlx_lm.models.cache import KVCache, QuantizedKVCache, RotatingKVCache
from transformers.cache_utils import QuantizedCache

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions import Session
from logitkit_adapters.transformers.cache_argument import cache_argument
from tests.sessions.alone import alone, by_mlx_lm, by_transformers
from tests.sessions.engines import loaded

PROMPT = [280, 661, 509, 277, 372, 81, 87, 338, 311, 1086, 5, 6, 7, 8]
ALL = -1
SIZES: dict[str, Any] = {
    "vocab_size": 1280, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 0,
}  # fmt: skip


def small(kind: Any, config: Any) -> Any:
    torch.manual_seed(0)
    model = kind(config).eval()
    model.generation_config.eos_token_id = 2
    return model


def sliding() -> Any:
    return small(transformers.MistralForCausalLM, transformers.MistralConfig(**SIZES, sliding_window=8))


def mixed() -> Any:
    config = transformers.Gemma3TextConfig(
        **SIZES, sliding_window=8, layer_types=["sliding_attention", "full_attention"]
    )
    return small(transformers.Gemma3ForCausalLM, config)


def chunked() -> Any:
    config = transformers.Llama4TextConfig(
        **{**SIZES, "intermediate_size_mlp": 48, "num_local_experts": 2, "attention_chunk_size": 8}
    )
    return small(transformers.Llama4ForCausalLM, config)


def linear() -> Any:
    config = transformers.Qwen3NextConfig(
        **SIZES, layer_types=["linear_attention", "full_attention"], num_experts=2, num_experts_per_tok=1,
        moe_intermediate_size=16, shared_expert_intermediate_size=16, linear_key_head_dim=8, linear_value_head_dim=8,
        linear_num_key_heads=2, linear_num_value_heads=2,
    )  # fmt: skip
    return small(transformers.Qwen3NextForCausalLM, config)


def turns(generate: Callable[[list[int], int], Any], reference: Callable[[list[int], int], list[int]]) -> list[int]:
    """Generate in turns, compare each with the reference, and return how many tokens of each prompt had to be done."""
    todo = []
    prompt = PROMPT
    for change in (
        lambda held: [*held, 9, 9],
        lambda held: held[:12],
        lambda held: [*held[:5], 3, 3],
        lambda _: PROMPT,
    ):
        row = generate(prompt, 12).rows[0]
        assert row.token_ids == reference(prompt, 12)
        assert row.positions_fed == len(prompt) + len(row.token_ids) - 1 - row.reuse.length
        todo.append(len(row.reuse.todo) if row.reuse.length else ALL)
        prompt = change([*prompt, *row.token_ids])
    return todo


@pytest.mark.parametrize(
    ("make", "goes_on"),
    [(sliding, True), (mixed, True), (chunked, True), (linear, True)],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_transformers_models_without_a_whole_cache(make: Callable[[], Any], goes_on: bool) -> None:
    model = make()
    with Session(model) as session:
        todo = turns(
            lambda prompt, count: session.generate(prompt, max_new_tokens=count),
            lambda prompt, count: by_transformers(model, prompt, count, None),
        )
    assert todo == [ALL, 3 if goes_on else ALL, ALL, ALL]


def test_a_quantised_cache_of_transformers() -> None:
    model, _ = loaded("transformers")
    with Session(model, make_cache=lambda: QuantizedCache("fp8", model.config)) as session:
        todo = turns(
            lambda prompt, count: session.generate(prompt, max_new_tokens=count),
            lambda prompt, count: by_transformers(
                model, prompt, count, None, **{cache_argument(model): QuantizedCache("fp8", model.config)}
            ),
        )
    assert todo == [ALL] * 4
    assert session.position == 0


@pytest.mark.parametrize(
    ("make", "goes_on"),
    [
        (lambda: RotatingKVCache(8), True),
        (lambda: RotatingKVCache(8, keep=4), False),
        (lambda: QuantizedKVCache(32, 4), False),
    ],
    ids=["rotating", "rotating, with a kept head", "quantised"],
)
def test_mlx_lm_caches_that_forget_or_round(make: Callable[[], Any], goes_on: bool) -> None:
    model, _ = loaded("mlx-lm")

    def caches() -> list[Any]:
        return [make() for _ in model.layers]

    with Session(*loaded("mlx-lm"), make_cache=caches) as session:
        todo = turns(
            lambda prompt, count: session.generate(prompt, max_new_tokens=count),
            lambda prompt, count: by_mlx_lm(model, prompt, count, None, prompt_cache=caches()),
        )
    assert todo == [ALL, 3 if goes_on else ALL, ALL, ALL]


def test_a_cache_of_mlx_lm_that_grows_otherwise_is_cut() -> None:
    model, _ = loaded("mlx-lm")
    with Session(*loaded("mlx-lm"), make_cache=lambda: [KVCache() for _ in model.layers]) as session:
        session.generate(PROMPT, max_new_tokens=4)
        assert session.generate(PROMPT[:5], max_new_tokens=4).rows[0].cached_tokens == 4


def test_llama_cpp_memory_that_cannot_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = llama_cpp.llama_memory_seq_rm

    def all_or_nothing(memory: Any, sequence: int, begin: int, end: int) -> bool:
        """As that of recurrent models."""
        last = llama_cpp.llama_memory_seq_pos_max(memory, sequence)
        return bool(whole(memory, sequence, begin, end)) if begin <= 0 or begin > last else False

    monkeypatch.setattr(llama_cpp, "llama_memory_seq_rm", all_or_nothing)
    with Session(loaded("llama.cpp")[0]) as session:
        todo = turns(
            lambda prompt, count: session.generate(prompt, max_new_tokens=count),
            lambda prompt, count: alone("llama.cpp", prompt, count),
        )
    assert todo == [ALL, 3, ALL, ALL]


def test_a_rewind_of_what_cannot_be_cut_lets_all_of_it_go() -> None:
    model = sliding()
    with Session(model) as session:
        session.generate(PROMPT, max_new_tokens=4)
        assert session.position == 17
        session.position = 9
        assert session.position == 0
        row = session.generate(PROMPT, max_new_tokens=4).rows[0]
        assert (row.cached_tokens, row.token_ids) == (0, by_transformers(model, PROMPT, 4, None))


def test_a_beginning_that_cannot_be_cut_out_is_kept_for_itself() -> None:
    model = sliding()
    with Session(model) as session:
        session.generate(PROMPT, max_new_tokens=1)
        session.generate([*PROMPT, 20, 21], max_new_tokens=1)
        row = session.generate([*PROMPT, 30], max_new_tokens=4).rows[0]
    assert row.reuse == lk.Reuse(0, 14, [30])
    assert row.token_ids == by_transformers(model, [*PROMPT, 30], 4, None)


def test_caches_of_the_session_s_choice_are_not_for_llama_cpp() -> None:
    with pytest.raises(ConfigurationError, match="make_cache is given"):
        Session(loaded("llama.cpp")[0], make_cache=list)
