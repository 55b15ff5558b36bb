"""Serving the small model that ships: throughput and the time between tokens, with and without the plugin, and beside vLLM's own.

Three engines are up at once, each with its core in a process of its own, and the ways take turns in generating the same number of
tokens for the same requests.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any, NamedTuple

from logitkit_adapters.demo import model_dir
from tests.adapters_vllm.engine import PLUGIN, prompt

REQUESTS = 64
TOKENS = 60
ROUNDS = 5
# No text is so short that it ends within the tokens.
PATTERN = r"[A-Za-z0-9 ,.:\n]{400}"


class Way(NamedTuple):
    """How requests are served.

    Args:
        name: What it is called.
        engine: The settings of its engine.
        params: What its requests ask for.
    """

    name: str
    engine: dict[str, Any]
    params: dict[str, Any]


def ways() -> list[Way]:
    """Return all ways."""
    from vllm.sampling_params import StructuredOutputsParams

    plugin = {"logits_processors": [PLUGIN]}
    xgrammar, guidance = ({"structured_outputs_config": {"backend": name}} for name in ("xgrammar", "guidance"))
    return [
        Way("no plugin", xgrammar, {}),
        Way("plugin, nothing asked for", plugin, {}),
        Way("plugin, a regex", plugin, {"extra_args": {"logitkit": {"regex": PATTERN}}}),
        Way("vLLM, the regex, XGrammar", xgrammar, {"structured_outputs": StructuredOutputsParams(regex=PATTERN)}),
        Way("vLLM, the regex, LLGuidance", guidance, {"structured_outputs": StructuredOutputsParams(regex=PATTERN)}),
    ]


def serving() -> dict[str, dict[str, float]]:
    """Return the tokens and requests a second of each way, and the time between tokens."""
    from vllm import LLM
    from vllm.v1.sample import logits_processor

    # Each engine has the plugin only if it names it; cores are forks of this process.
    logits_processor._load_logitsprocs_plugins = list
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    common: dict[str, Any] = {
        "max_num_seqs": REQUESTS,
        "max_model_len": 256,
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "disable_log_stats": False,
        "dtype": "float32",
        "seed": 0,
    }
    engines: dict[str, Any] = {}
    for way in ways():
        if str(way.engine) not in engines:
            engines[str(way.engine)] = LLM(str(model_dir()), **common, **way.engine)
    taken: dict[str, list[tuple[float, float]]] = {way.name: [] for way in ways()}
    for turn in range(ROUNDS + 1):
        for way in ways():
            found = _round(engines[str(way.engine)], way.params)
            if turn:  # the first one compiles
                taken[way.name].append(found)
    for engine in engines.values():
        engine.llm_engine.engine_core.shutdown()
    return {
        name: {
            "tokens_per_s": REQUESTS * TOKENS / statistics.median(total for total, _ in times),
            "requests_per_s": REQUESTS / statistics.median(total for total, _ in times),
            "between_tokens_s": statistics.median(between for _, between in times),
        }
        for name, times in taken.items()
    }


def _round(engine: Any, params: dict[str, Any]) -> tuple[float, float]:
    """Return how long the requests take together, and the median time between two tokens of one."""
    from vllm import SamplingParams

    asked = SamplingParams(temperature=0.0, max_tokens=TOKENS, ignore_eos=True, **params)
    begin = time.perf_counter()
    outputs = engine.generate([prompt(number) for number in range(REQUESTS)], asked, use_tqdm=False)
    total = time.perf_counter() - begin
    assert all(len(output.outputs[0].token_ids) == TOKENS for output in outputs)
    metrics = [output.metrics for output in outputs]
    return total, statistics.median((m.last_token_ts - m.first_token_ts) / (TOKENS - 1) for m in metrics)
