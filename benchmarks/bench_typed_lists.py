"""Typed output of 1 and 8 prompts: one by one, together, and together again as the control.

The model has the architecture of Llama, 8 layers of width 512 and random weights (27 million), in float32 on the CPU, with the
tokenizer that ships. An output is an object with a date and a number, closed within 40 tokens. One by one is what a loop over the
prompts does. Run `pytest benchmarks/bench_typed_lists.py --benchmark-json=FILE`, or `python -m benchmarks.bench_typed_lists`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, TypedDict

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.side_by_side import medians
from benchmarks.tables import Tables

ROUNDS = 3
PROMPTS = [f"The meeting number {number * 7} is on " for number in range(8)]


class Meeting(TypedDict):
    day: date
    room: int


@cache
def loaded(engine: str) -> tuple[Any, Any, Any]:
    """Return the model, its tokenizer and `generate_typed` of an engine; both engines read the same files."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from logitkit_adapters.demo import model_dir

    tokenizer = AutoTokenizer.from_pretrained(model_dir())
    known = json.loads((Path(model_dir()) / "config.json").read_text("utf-8"))
    sizes: dict[str, Any] = {
        "hidden_size": 512,
        "intermediate_size": 1536,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
    }
    ends = {name: known[name] for name in ("bos_token_id", "eos_token_id", "vocab_size")}
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**sizes, **ends, max_position_embeddings=256)).eval()
    if engine == "transformers":
        from logitkit_adapters.transformers import generate_typed

        return model, tokenizer, generate_typed
    import mlx_lm

    from logitkit_adapters.mlx_lm import generate_typed

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return *mlx_lm.load(folder)[:2], generate_typed


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("engine", ["transformers", "mlx-lm"])
def test_lists(engine: str, count: int, benchmark: BenchmarkFixture, tables: Tables) -> None:
    model, tokenizer, generate_typed = loaded(engine)
    prompts = PROMPTS[:count]

    def together() -> list[Any]:
        found: list[Any] = generate_typed(model, tokenizer, prompts, Meeting, max_new_tokens=40)
        return found

    def one_by_one() -> list[Any]:
        return [generate_typed(model, tokenizer, prompt, Meeting, max_new_tokens=40) for prompt in prompts]

    assert [one.text for one in together()] == [one.text for one in one_by_one()]
    found = medians({"one": one_by_one, "together": together, "again": together}, rounds=ROUNDS, warmup=1)
    benchmark.pedantic(together, rounds=1)
    benchmark.extra_info.update({f"{name}_ms": took * 1e3 for name, took in found.items()})
    table = tables.table(
        "Typed output of a list of prompts, ms (medians)",
        *("engine, prompts", "one by one", "together", "ratio", "A/A"),
    )
    table.add(
        f"{engine}, {count}",
        *(found["one"] * 1e3, found["together"] * 1e3, found["one"] / found["together"]),
        found["again"] / found["together"],
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
