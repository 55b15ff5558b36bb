"""A random GPT-2 in llama.cpp, whose positions are learned."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from logitkit_adapters.demo import model_dir
from logitkit_adapters.demo.gguf_file import UInt32, encode_gguf

SIZE, LAYERS, HEADS, POSITIONS = 32, 2, 2, 128


@cache
def learned_llama() -> Any:
    """Return a `Llama` of the architecture of GPT-2, with the tokens of the shipped model."""
    import llama_cpp

    path = Path(tempfile.mkdtemp(prefix="logitkit-learned-")) / "model.gguf"
    path.write_bytes(_content())
    return llama_cpp.Llama(
        str(path), n_ctx=POSITIONS, n_threads=1, n_threads_batch=1, type_k=0, type_v=0, verbose=False
    )


def _content() -> bytes:
    tokenizer = json.loads((model_dir() / "tokenizer.json").read_text("utf-8"))
    special = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    texts = {**{i: text for text, i in tokenizer["model"]["vocab"].items()}, **special}
    draw = np.random.default_rng(0)

    def random(*shape: int) -> Any:
        return draw.normal(0.0, 0.3, shape).astype(np.float32)

    tensors = {
        "token_embd.weight": random(len(texts), SIZE),
        "position_embd.weight": random(POSITIONS, SIZE),
        "output_norm.weight": random(SIZE) + 1,
        "output_norm.bias": random(SIZE),
    }
    for layer in range(LAYERS):
        for name, shape in {
            "attn_norm": (SIZE,),
            "attn_qkv": (3 * SIZE, SIZE),
            "attn_output": (SIZE, SIZE),
            "ffn_norm": (SIZE,),
            "ffn_up": (4 * SIZE, SIZE),
            "ffn_down": (SIZE, 4 * SIZE),
        }.items():
            tensors[f"blk.{layer}.{name}.weight"] = random(*shape)
            tensors[f"blk.{layer}.{name}.bias"] = random(shape[0])
    return encode_gguf(
        {
            "general.architecture": "gpt2",
            "general.file_type": UInt32(0),
            "gpt2.block_count": UInt32(LAYERS),
            "gpt2.context_length": UInt32(POSITIONS),
            "gpt2.embedding_length": UInt32(SIZE),
            "gpt2.feed_forward_length": UInt32(4 * SIZE),
            "gpt2.attention.head_count": UInt32(HEADS),
            "gpt2.attention.layer_norm_epsilon": 1e-5,
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": [texts[i] for i in range(len(texts))],
            "tokenizer.ggml.token_type": [3 if i in special else 1 for i in range(len(texts))],
            "tokenizer.ggml.merges": [" ".join(pair) for pair in tokenizer["model"]["merges"]],
            "tokenizer.ggml.bos_token_id": UInt32(1),
            "tokenizer.ggml.eos_token_id": UInt32(2),
            "tokenizer.ggml.add_bos_token": False,
        },
        tensors,
    )
