"""An engine of vLLM for the Tekken tokenizer that mistral-common ships: 131,072 logits, of a model whose weights nobody needs."""

from __future__ import annotations

import importlib.resources
import json
import shutil
from pathlib import Path
from typing import Any

LONGEST = 2048
SIZE = 131072
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "vocab_size": SIZE,
    "max_position_embeddings": LONGEST,
}


def engine_config(folder: Path, requests: int) -> Any:
    """Return vLLM's configuration of an engine with the Tekken tokenizer.

    Args:
        folder: Where the model's files go.
        requests: Most requests at once.
    """
    from vllm.engine.arg_utils import EngineArgs

    tokens = importlib.resources.files("mistral_common").joinpath("data/tekken_240911.json")
    with importlib.resources.as_file(tokens) as file:
        shutil.copy(file, folder / "tekken.json")
    (folder / "config.json").write_text(json.dumps(MODEL))
    return EngineArgs(
        model=str(folder),
        tokenizer_mode="mistral",
        config_format="hf",
        load_format="dummy",
        dtype="float32",
        max_model_len=LONGEST,
        max_num_seqs=requests,
        async_scheduling=False,
    ).create_engine_config()
