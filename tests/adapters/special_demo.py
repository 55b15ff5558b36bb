"""The shipped model with two more special tokens: the names of two of its ids are changed, and one more ends a text."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

import logitkit as lk
from logitkit_adapters.demo import gguf_path, model_dir
from logitkit_adapters.demo.gguf_model import convert

EOS, THINK, TURN = 2, 1278, 1279
NAMES = {"</think>": THINK, "<|im_end|>": TURN}

ENGINES = ("transformers", "mlx-lm", "llama.cpp")


@cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@cache
def folder() -> Path:
    """Return the folder of the model: `generate` ends a text at both EOS and TURN, and the tokenizer names one of them."""
    copy = Path(shutil.copytree(model_dir(), Path(_kept().name) / "model"))
    tokenizer = json.loads((copy / "tokenizer.json").read_text("utf-8"))
    vocab, merges = tokenizer["model"]["vocab"], tokenizer["model"]["merges"]
    for name, token in NAMES.items():
        old = next(piece for piece, i in vocab.items() if i == token)
        del vocab[old]
        vocab[name] = token
        merges[:] = [pair for pair in merges if "".join(pair) != old]
        tokenizer["added_tokens"].append({**tokenizer["added_tokens"][-1], "id": token, "content": name})
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    generation = json.loads((copy / "generation_config.json").read_text("utf-8"))
    (copy / "generation_config.json").write_text(json.dumps({**generation, "eos_token_id": [TURN, EOS]}), "utf-8")
    return copy


@cache
def loaded(engine: str) -> tuple[Any, Any]:
    """Return model and tokenizer; of llama.cpp the model twice."""
    if engine == "transformers":
        import transformers

        tokenizer = transformers.AutoTokenizer.from_pretrained(folder())
        return transformers.AutoModelForCausalLM.from_pretrained(folder()), tokenizer
    if engine == "mlx-lm":
        import mlx_lm

        return mlx_lm.load(str(folder()))[:2]
    import llama_cpp

    path = folder().parent / gguf_path().name
    path.write_bytes(convert(folder()))
    llama = llama_cpp.Llama(str(path), n_ctx=256, n_threads=1, n_threads_batch=1, verbose=False)
    return llama, llama


def adapter(engine: str) -> Any:
    """Return the adapter's module."""
    import importlib

    return importlib.import_module("logitkit_adapters." + engine.replace("-", "_").replace(".", "_"))


@cache
def vocabulary(engine: str) -> lk.Vocabulary:
    """Return the vocabulary that an adapter reads with its model."""
    model, tokenizer = loaded(engine)
    found: lk.Vocabulary = adapter(engine).vocabulary(tokenizer, model)
    return found


def written(engine: str, prompt: Sequence[int], processor: lk.Processor[Any], most: int = 24) -> list[int]:
    """Return the ids that an engine's own loop writes, EOS included."""
    model, tokenizer = loaded(engine)
    hook = adapter(engine).logits_processor(processor)
    if engine == "transformers":
        ids = torch.tensor([list(prompt)])
        found = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=most, do_sample=False, logits_processor=[hook]
        )
        return [int(i) for i in found[0, len(prompt) :]]
    if engine == "mlx-lm":
        import mlx_lm

        options: dict[str, Any] = {"max_tokens": most, "logits_processors": [hook]}
        return [one.token for one in mlx_lm.stream_generate(model, tokenizer, list(prompt), **options)]
    tokens: list[int] = []
    model.reset()
    for token in model.generate(list(prompt), temp=0.0, logits_processor=hook):
        tokens.append(int(token))
        if len(tokens) == most or token in vocabulary(engine).eos_ids:
            break
    return tokens
