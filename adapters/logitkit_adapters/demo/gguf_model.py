"""The demo model for llama.cpp: a float32 Llama and its byte-level BPE, in one GGUF file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from logitkit_adapters.demo.gguf_file import UInt32, encode_gguf

__all__ = ["convert"]

_NORMAL, _CONTROL = 1, 3  # token types
_ALL_FLOAT32 = 0  # a file type

# By the name of the tensor in a block of the safetensors file.
_BLOCK = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def convert(folder: Path, more: Mapping[str, str] | None = None) -> bytes:
    """Return the content of the GGUF file for a model in the Hugging Face layout.

    Args:
        folder: The folder of a float32 `LlamaForCausalLM` with tied embeddings, and of a byte-level BPE tokenizer that splits
            text like GPT-2 and does not add special tokens itself.
        more: More metadata, such as a chat template.
    """
    config = json.loads((folder / "config.json").read_text("utf-8"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    return encode_gguf(
        {
            "general.architecture": "llama",
            "general.name": "logitkit demo",
            "general.file_type": UInt32(_ALL_FLOAT32),
            **_shape(config),
            **_tokenizer(config, tokenizer),
            **(more or {}),
        },
        _tensors(config, load_file(folder / "model.safetensors")),
    )


def _shape(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "llama.block_count": UInt32(config["num_hidden_layers"]),
        "llama.context_length": UInt32(config["max_position_embeddings"]),
        "llama.embedding_length": UInt32(config["hidden_size"]),
        "llama.feed_forward_length": UInt32(config["intermediate_size"]),
        "llama.attention.head_count": UInt32(config["num_attention_heads"]),
        "llama.attention.head_count_kv": UInt32(config["num_key_value_heads"]),
        "llama.attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "llama.rope.dimension_count": UInt32(config["head_dim"]),
        "llama.rope.freq_base": float(config["rope_parameters"]["rope_theta"]),
        "llama.vocab_size": UInt32(config["vocab_size"]),
    }


def _tokenizer(config: Mapping[str, Any], tokenizer: Mapping[str, Any]) -> dict[str, Any]:
    special = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    texts = {**{i: text for text, i in tokenizer["model"]["vocab"].items()}, **special}
    ids = range(config["vocab_size"])
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [texts[i] for i in ids],
        "tokenizer.ggml.token_type": [_CONTROL if i in special else _NORMAL for i in ids],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in tokenizer["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": UInt32(config["bos_token_id"]),
        "tokenizer.ggml.eos_token_id": UInt32(config["eos_token_id"]),
        "tokenizer.ggml.padding_token_id": UInt32(config["pad_token_id"]),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": False,
    }


def _tensors(config: Mapping[str, Any], weights: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    # llama.cpp uses the embeddings as output weights if the file has none; they are tied.
    tensors = {
        "token_embd.weight": weights["model.embed_tokens.weight"],
        "output_norm.weight": weights["model.norm.weight"],
    }
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for layer in range(config["num_hidden_layers"]):
        for theirs, ours in _BLOCK.items():
            weight = weights[f"model.layers.{layer}.{theirs}.weight"]
            tensors[f"blk.{layer}.{ours}.weight"] = _rotated_by_pairs(weight, heads[ours]) if ours in heads else weight
    return tensors


def _rotated_by_pairs(weight: NDArray[Any], heads: int) -> NDArray[Any]:
    """Reorder the outputs of a head so that the two values of each rotated pair are adjacent.

    Position embeddings rotate pairs of values: in transformers 0 and n/2, 1 and n/2 + 1; in llama.cpp 0 and 1, 2 and 3.
    """
    outputs, inputs = weight.shape
    return weight.reshape(heads, 2, outputs // heads // 2, inputs).swapaxes(1, 2).reshape(outputs, inputs)
