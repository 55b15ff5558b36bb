"""The demo model for ONNX Runtime GenAI: a folder as its model builder writes it.

The graph ships as `model/model.onnx` (25 kB), without the weights; `scripts/export-demo-graph` makes it with the builder. The
weights are in a second file, one tensor after another without gaps, in the order in which the graph first uses them. This module
writes that file from `model.safetensors` in a few milliseconds, so that nobody needs the builder, which imports torch,
transformers and onnx.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file

__all__ = ["convert"]

GRAPH, WEIGHTS = "model.onnx", "model.onnx.data"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")


def convert(folder: Path) -> dict[str, bytes]:
    """Return the files of the model's folder for ONNX Runtime GenAI, by name.

    Args:
        folder: The folder of a float32 `LlamaForCausalLM` with tied embeddings, as `model_dir` returns it, with its graph.
    """
    config = json.loads((folder / "config.json").read_text("utf-8"))
    weights = load_file(folder / "model.safetensors")
    return {
        GRAPH: (folder / GRAPH).read_bytes(),
        WEIGHTS: b"".join(np.ascontiguousarray(part, "<f4").tobytes() for part in _tensors(config, weights)),
        "genai_config.json": json.dumps(_genai_config(config), indent=4).encode(),
        **{name: (folder / name).read_bytes() for name in TOKENIZER},
    }


def _tensors(config: Mapping[str, Any], weights: Mapping[str, NDArray[Any]]) -> Iterator[NDArray[Any]]:
    """Yield the tensors in the order of the file. Its matrices have one column for each output."""
    for layer in range(config["num_hidden_layers"]):
        block = {name: weights[f"model.layers.{layer}.{name}.weight"] for name in _BLOCK}
        yield block["input_layernorm"]
        yield np.concatenate([block[f"self_attn.{name}_proj"] for name in "qkv"]).T
        if layer == 0:
            yield from _rotations(config)
        yield block["self_attn.o_proj"].T
        yield block["post_attention_layernorm"]
        for name in ("gate", "up", "down"):
            yield block[f"mlp.{name}_proj"].T
    yield weights["model.norm.weight"]
    yield weights["model.embed_tokens.weight"].T


_BLOCK = (
    *("input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"),
    *("post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
)


def _rotations(config: Mapping[str, Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the cosines and sines of the position embeddings, [positions, head size / 2] each."""
    size = config["head_dim"]
    # In torch, as the builder does: numpy rounds some cosines differently.
    frequencies = 1.0 / (config["rope_parameters"]["rope_theta"] ** (torch.arange(0, size, 2).float() / size))
    angles = torch.outer(torch.arange(config["max_position_embeddings"]).float(), frequencies)
    return angles.cos().numpy(), angles.sin().numpy()


def _genai_config(config: Mapping[str, Any]) -> dict[str, Any]:
    decoder = {
        # A pool of threads takes longer to wake up than this model takes for a token.
        "session_options": {"intra_op_num_threads": 1, "provider_options": []},
        "filename": GRAPH,
        "head_size": config["head_dim"],
        "hidden_size": config["hidden_size"],
        "inputs": {
            "input_ids": "input_ids",
            "attention_mask": "attention_mask",
            "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
        **{name: config[name] for name in ("num_attention_heads", "num_hidden_layers", "num_key_value_heads")},
    }
    names = ("bos_token_id", "eos_token_id", "pad_token_id", "vocab_size")
    positions = config["max_position_embeddings"]
    return {
        "model": {
            "type": config["model_type"],
            "context_length": positions,
            "decoder": decoder,
            **{name: config[name] for name in names},
        },
        "search": {"max_length": positions, "past_present_share_buffer": True},
    }
