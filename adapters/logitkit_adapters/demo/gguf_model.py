"""The demo model for llama.cpp: a float32 Llama and its byte-level BPE, in one GGUF file."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from logitkit.errors import ConfigurationError
from logitkit_adapters.demo.gguf_file import UInt32, encode_gguf

__all__ = ["cached", "convert"]

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


def convert(folder: Path) -> bytes:
    """Return the content of the GGUF file for a model in the Hugging Face layout.

    Args:
        folder: The folder of a float32 `LlamaForCausalLM` with tied embeddings, and of a byte-level BPE tokenizer that splits
            text like GPT-2 and does not add special tokens itself.
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
        },
        _tensors(config, load_file(folder / "model.safetensors")),
    )


def cached(content: bytes, name: str) -> Path:
    """Return the path of a file with the given content in the user's cache; the file is written if it is missing.

    Args:
        content: The content of the file, whose hash is part of the file's name.
        name: The file's name, with its suffix; the hash comes between the two.

    Returns:
        The path. If the cache is not writable, a path in a temporary folder that is deleted when the process ends. Several
        processes may write the file at the same time.

    Raises:
        ConfigurationError: Neither folder is writable.
    """
    key = hashlib.sha256(content).hexdigest()[:16]
    file = f"{Path(name).stem}-{key}{Path(name).suffix}"
    refused: list[str] = []
    for place, folder_of in (
        ("the cache", _user_folder),
        ("a temporary folder", lambda: _folder_of_this_process().name),
    ):
        try:
            path = Path(folder_of(), file)
            if not path.is_file() or path.read_bytes() != content:
                _write(path, content)
        except (OSError, RuntimeError) as error:
            refused.append(f"{place}: {error}")
        else:
            return path
    raise ConfigurationError(
        f"{name} was not written to {' nor to '.join(refused)}; set XDG_CACHE_HOME or TMPDIR to a folder that can be written to, "
        f"with room for {len(content):,} bytes"
    )


def _user_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore relative paths.
    base = Path(root) if Path(root).is_absolute() else Path.home() / ".cache"
    return base / "logitkit"


@cache
def _folder_of_this_process() -> tempfile.TemporaryDirectory[str]:
    """Create a folder that is deleted when the process ends."""
    return tempfile.TemporaryDirectory(prefix="logitkit-")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.stem}-", dir=path.parent) as folder:
        unfinished = Path(folder) / path.name
        unfinished.write_bytes(content)
        unfinished.replace(path)


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
