"""A small engine of vLLM, in which requests get in one another's way; run as a script, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from logitkit_adapters.demo import model_dir

ROOT = Path(__file__).parents[2]

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
        "model": str(model_dir()),
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
    return LLM(**{**settings, **more})


def generate(llm: Any, requests: Sequence[tuple[str, dict[str, Any]]]) -> list[Any]:
    """Return the outputs of requests that run together."""
    from vllm import SamplingParams

    params = [SamplingParams(**one) for _, one in requests]
    outputs = llm.generate([text for text, _ in requests], params, use_tqdm=False)
    return [output.outputs[0] for output in outputs]


def counted(llm: Any, name: str) -> int:
    """Return one of the engine's counters."""
    return sum(metric.value for metric in llm.get_metrics() if metric.name == f"vllm:{name}")


def main() -> None:
    """Run batches of requests in a process of its own, and write what came out."""
    task = json.loads(sys.argv[1])
    if not task["plugin"]:
        from vllm.v1.sample import logits_processor

        logits_processor._load_logitsprocs_plugins = list
    llm = start(**({"logits_processors": [PLUGIN]} if task["plugin"] else {}), **task["settings"])
    batches = [
        [[list(o.token_ids), o.text, o.finish_reason] for o in generate(llm, batch)] for batch in task["batches"]
    ]
    result = {
        "batches": batches,
        "v2": bool(llm.llm_engine.vllm_config.use_v2_model_runner),
        "preemptions": counted(llm, "num_preemptions"),
        "accepted": counted(llm, "spec_decode_num_accepted_tokens"),
    }
    Path(sys.argv[2]).write_text(json.dumps(result))


def run_apart(batches: Any, wrote: Path, plugin: bool, settings: dict[str, Any], environment: dict[str, str]) -> Any:
    """Run batches in a process of its own, and return what it wrote."""
    task = {"plugin": plugin, "settings": settings, "batches": batches}
    return run_script("tests.adapters_vllm.engine", task, wrote, environment)


def run_script(module: str, task: dict[str, Any], wrote: Path, environment: dict[str, str]) -> Any:
    """Give a module a task, in a process of its own, and return what it wrote."""
    command = [sys.executable, "-m", module, json.dumps(task), str(wrote)]
    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(wrote.read_text())


if __name__ == "__main__":
    main()
