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

    return LLM(**settings(**more))


def settings(**more: Any) -> dict[str, Any]:
    """Return the settings of such an engine."""
    found = {
        "model": str(model_dir()),
        "max_num_seqs": 16,
        "max_model_len": 256,
        "max_num_batched_tokens": 32,
        "enable_chunked_prefill": True,
        "enable_prefix_caching": False,
        "num_gpu_blocks_override": 20,
        "block_size": 32,
        "enforce_eager": True,
        "async_scheduling": False,
        "disable_log_stats": False,
        "dtype": "float32",
        "seed": 0,
    }
    return {**found, **more}


def generate(llm: Any, requests: Sequence[tuple[Any, dict[str, Any]]]) -> list[Any]:
    """Return the outputs of requests that run together."""
    return [output.outputs[0] for output in answers(llm, requests)]


def answers(llm: Any, requests: Sequence[tuple[Any, dict[str, Any]]]) -> list[Any]:
    """Return what vLLM answers to requests that run together; a grammar of its own is given by its arguments."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    params = []
    for _, given in requests:
        grammar = given.get("structured_outputs")
        more: dict[str, Any] = {} if grammar is None else {"structured_outputs": StructuredOutputsParams(**grammar)}
        if "logit_bias" in given:  # in JSON, names are texts
            more["logit_bias"] = {int(token): bias for token, bias in given["logit_bias"].items()}
        params.append(SamplingParams(**{**given, **more}))
    return list(llm.generate([text for text, _ in requests], params, use_tqdm=False))


def written(answer: Any) -> dict[str, Any]:
    """Return what is compared of an answer; numbers keep all their bits as JSON."""
    output = answer.outputs[0]
    logprobs = [sorted((token, one.logprob) for token, one in step.items()) for step in output.logprobs or ()]
    return {
        "prompt": list(answer.prompt_token_ids),
        "tokens": list(output.token_ids),
        "text": output.text,
        "reason": output.finish_reason,
        "logprobs": logprobs,
        "others": [{"tokens": list(other.token_ids), "text": other.text} for other in answer.outputs[1:]],
    }


def count_resumptions() -> list[int]:
    """Count the tokens of output with which requests enter the plugin's batch again."""
    from logitkit_adapters.vllm.requests import Requests

    lengths: list[int] = []
    original = Requests.enter

    def enter(self: Any, processor: Any, params: Any, prompt: Any, output: Any) -> Any:
        if output:
            lengths.append(len(output))
        return original(self, processor, params, prompt, output)

    Requests.enter = enter  # type: ignore[method-assign]
    return lengths


def counted(llm: Any, name: str) -> int:
    """Return one of the engine's counters."""
    return sum(metric.value for metric in llm.get_metrics() if metric.name == f"vllm:{name}")


def keep_asynchronous_scheduling() -> None:
    """Turn on vLLM's asynchronous scheduling if asked to: on a CPU vLLM turns it off, although it works."""
    from vllm.platforms.cpu import CpuPlatform

    original = CpuPlatform.check_and_update_config.__func__

    def check(cls: Any, config: Any) -> None:
        asked = config.scheduler_config.async_scheduling
        original(cls, config)
        config.scheduler_config.async_scheduling = asked

    CpuPlatform.check_and_update_config = classmethod(check)


def main() -> None:
    """Run batches of requests in a process of its own, and write what came out."""
    task = json.loads(sys.argv[1])
    if not task["plugin"]:
        from vllm.v1.sample import logits_processor

        logits_processor._load_logitsprocs_plugins = list
    resumptions = count_resumptions()
    keep_asynchronous_scheduling()
    llm = start(**({"logits_processors": [PLUGIN]} if task["plugin"] else {}), **task["settings"])
    result = {
        "batches": [[written(answer) for answer in answers(llm, batch)] for batch in task["batches"]],
        "v2": bool(llm.llm_engine.vllm_config.use_v2_model_runner),
        "preemptions": counted(llm, "num_preemptions"),
        "resumptions": resumptions,
        "scheduler": type(llm.llm_engine.engine_core.engine_core.scheduler).__name__,
        "accepted": counted(llm, "spec_decode_num_accepted_tokens"),
    }
    Path(sys.argv[2]).write_text(json.dumps(result))


def environment_with(more: dict[str, str]) -> dict[str, str]:
    """Return this process's environment with other variables; folders on its path stay there."""
    paths = [one.get("PYTHONPATH", "") for one in (more, os.environ)]
    return {**os.environ, **more, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def run_apart(batches: Any, wrote: Path, plugin: bool, settings: dict[str, Any], environment: dict[str, str]) -> Any:
    """Run batches in a process of its own, and return what it wrote."""
    task = {"plugin": plugin, "settings": settings, "batches": batches}
    return run_script("tests.adapters_vllm.engine", task, wrote, environment)


def run_script(module: str, task: Any, wrote: Path, environment: dict[str, str]) -> Any:
    """Give a module a task, in a process of its own, and return what it wrote."""
    command = [sys.executable, "-m", module, json.dumps(task), str(wrote)]
    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment_with(environment)
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(wrote.read_text())


if __name__ == "__main__":
    main()
