"""A small engine of vLLM, in which requests get in one another's way; run as a script, one without the plugin."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from logitkit_adapters.demo import model_dir

PLUGIN = "logitkit_adapters.vllm:LogitsProcessor"

PROMPTS = (
    "The meeting is on ",
    "name: Anna Berg\nphone: ",
    "The price of the red chair is ",
    '{"name": "',
    "A list of colours: red, green, ",
    "Is the sky blue? Answer: ",
)


def prompt(number: int) -> str:
    """Return one of many prompts, short and long."""
    return PROMPTS[number % len(PROMPTS)] * (1 + number % 4)


def start(**more: Any) -> Any:
    """Start an engine whose cache is too small for its batch, and whose steps are too small for its prompts."""
    from vllm import LLM

    settings: dict[str, Any] = {
        "max_num_seqs": 16,
        "max_model_len": 256,
        "max_num_batched_tokens": 32,
        "enable_chunked_prefill": True,
        "enable_prefix_caching": False,
        "num_gpu_blocks_override": 20,
        "block_size": 32,
        "enforce_eager": True,
        "disable_log_stats": False,
        "dtype": "float32",
        "seed": 0,
    }
    return LLM(str(model_dir()), **{**settings, **more})


def main() -> None:
    """Write the tokens that an engine without the plugin generates, as JSON to a file."""
    from vllm import SamplingParams
    from vllm.v1.sample import logits_processor

    logits_processor._load_logitsprocs_plugins = list
    llm = start()
    given = json.loads(sys.argv[1])
    params = [SamplingParams(**one) for _, one in given]
    outputs = llm.generate([text for text, _ in given], params, use_tqdm=False)
    tokens = [list(output.outputs[0].token_ids) for output in outputs]
    Path(sys.argv[2]).write_text(json.dumps(tokens))


if __name__ == "__main__":
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    main()
