"""A random Llama in three engines, of one layer or more."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers

from logitkit_adapters.demo import model_dir
from logitkit_adapters.demo.gguf_model import convert

SIZES: dict[str, Any] = {
    "vocab_size": 1280, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 32, "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    "tie_word_embeddings": True, "initializer_range": 0.3,
}  # fmt: skip


@cache
def folder(layers: int) -> Path:
    path = Path(tempfile.mkdtemp(prefix="logitkit-one-layer-"))
    torch.manual_seed(layers)
    config = transformers.LlamaConfig(**SIZES, num_hidden_layers=layers)
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(model_dir() / name, path / name)
    (path / "model.gguf").write_bytes(convert(path))
    return path


@cache
def random_llama(name: str, layers: int) -> Any:
    """Return a model of some layers in an engine; the weights are the same in each. It is shared: leave it as it is."""
    return fresh_llama(name, layers)


def fresh_llama(name: str, layers: int) -> Any:
    """Return the model of `random_llama` for a test that changes it."""
    path = folder(layers)
    if name == "transformers":
        return transformers.AutoModelForCausalLM.from_pretrained(path)
    if name == "mlx-lm":
        import mlx_lm

        return mlx_lm.load(str(path))[0]
    import llama_cpp

    return llama_cpp.Llama(
        str(path / "model.gguf"), n_ctx=256, n_threads=1, n_threads_batch=1, type_k=0, type_v=0, verbose=False
    )
