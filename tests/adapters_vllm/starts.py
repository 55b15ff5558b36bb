"""Engines that start, or say why they do not; run as a script, in a process of its own."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any

from logitkit.errors import LogitkitError
from tests.adapters_vllm import engine


def count_hidden_tokens() -> list[int]:
    """Count the requests of each step whose newest token vLLM does not know when the step begins."""
    from logitkit_adapters.vllm import LogitsProcessor

    counts: list[int] = []
    original = LogitsProcessor.update_state

    def update(self: Any, batch_update: Any) -> None:
        original(self, batch_update)
        outputs = self._rows.rows.outputs() if self._rows is not None else {}
        counts.append(sum(output[-1:] == [-1] for output in outputs.values()))

    LogitsProcessor.update_state = update  # type: ignore[method-assign]
    return counts


def said_to(llm: Any, request: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what an engine answers to a request, or the error with which it refuses it."""
    from vllm.exceptions import VLLMValidationError

    try:
        (output,) = engine.generate(llm, [request])
    except VLLMValidationError as error:
        return {"error": str(error)}
    return {"text": output.text, "tokens": list(output.token_ids)}


def main() -> None:
    """Start an engine for each of some settings, in turn, and write what it said."""
    task = json.loads(sys.argv[1])
    engine.keep_asynchronous_scheduling()
    hidden = count_hidden_tokens()
    found: dict[str, Any] = {}
    alone = task.get("alone", {})
    for name, settings in task["starts"].items():
        hidden.clear()
        try:
            llm = engine.start(**settings)
        except LogitkitError as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"}
            continue
        outputs = engine.generate(llm, task["requests"]) if name not in alone else []
        found[name] = {
            "tokens": [list(output.token_ids) for output in outputs],
            "scheduler": type(llm.llm_engine.engine_core.engine_core.scheduler).__name__,
            "hidden": sum(hidden),
            "v2": bool(llm.llm_engine.vllm_config.use_v2_model_runner),
            "alone": [said_to(llm, request) for request in alone.get(name, ())],
        }
        # It takes with it what engines of a process share, so before the next one has it.
        del llm
        gc.collect()
    Path(sys.argv[2]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
