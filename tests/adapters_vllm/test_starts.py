"""How a real engine of vLLM is started: what works, and what is refused with a message that says what to do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from logitkit_adapters.demo import model_dir
from tests.adapters_vllm import engine, mixed

ALONE = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}

PLAIN = engine.PROMPTS[0], {"max_tokens": 8, "temperature": 0.0}
CONSTRAINED = engine.PROMPTS[0], {**PLAIN[1], "extra_args": {"logitkit": {"regex": "[0-9]{3}"}}}

REQUESTS = [request for n, request in enumerate(mixed.requests(24, 40)) if not mixed.is_drawn(n)]


def without_bytes(folder: Path) -> Path:
    """Return the model with a tokenizer whose decoder acts across tokens, so that a token has no bytes of its own."""
    model = Path(shutil.copytree(model_dir(), folder / "model"))
    tokenizer = json.loads((model / "tokenizer.json").read_text("utf-8"))
    tokenizer["decoder"] = {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True}
    (model / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    return model


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("starts")
    named = {"logits_processors": [engine.PLUGIN]}
    settings = {
        "synchronous": {**named, "async_scheduling": False},
        "asynchronous": {**named, "async_scheduling": True},
        "synchronous, found only": {"async_scheduling": False},
        "asynchronous, found only": {"async_scheduling": True},
        "no bytes": {**named, "model": str(without_bytes(folder))},
        "no tokenizer": {**named, "skip_tokenizer_init": True},
        "no tokenizer, found only": {"skip_tokenizer_init": True},
    }
    alone = {"asynchronous, found only": [PLAIN, CONSTRAINED]}
    task = {"starts": settings, "requests": REQUESTS, "alone": alone}
    return engine.run_script("tests.adapters_vllm.starts", task, folder / "out.json", ALONE)


def test_asynchronous_scheduling_changes_nothing(starts: Any) -> None:
    one, other = starts["synchronous"], starts["asynchronous"]
    assert (one["scheduler"], other["scheduler"]) == ("Scheduler", "AsyncScheduler")
    assert one["hidden"] == 0
    # Tokens that the plugin was shown only after the step had begun.
    assert other["hidden"] > 100
    assert other["tokens"] == one["tokens"]


def test_a_plugin_that_is_not_named_works(starts: Any) -> None:
    assert starts["synchronous, found only"] == starts["synchronous"]


def test_asynchronous_scheduling_refuses_requests_to_a_plugin_that_is_not_named(starts: Any) -> None:
    found = starts["asynchronous, found only"]
    assert found["scheduler"] == "AsyncScheduler"
    plain, constrained = found["alone"]
    assert plain["text"]
    assert "V1 model runner hides the newest token" in constrained["error"]
    assert "--logits-processors logitkit_adapters.vllm:LogitsProcessor" in constrained["error"]
    assert "--no-async-scheduling" in constrained["error"]


def test_a_tokenizer_without_bytes_is_refused(starts: Any) -> None:
    error = starts["no bytes"]["error"]
    assert error.startswith("VocabularyError: logitkit's plugin cannot serve '")
    assert "its decoder has the step {'type': 'CTC'" in error
    assert error.endswith("or take it out of logits_processors, to start the engine without it")


@pytest.mark.parametrize("name", ["no tokenizer", "no tokenizer, found only"])
def test_an_engine_without_a_tokenizer_is_refused(starts: Any, name: str) -> None:
    assert starts[name]["error"].startswith(
        "VocabularyError: the engine has no tokenizer (skip_tokenizer_init), so the bytes"
    )


def test_two_workers_say_what_one_says(starts: Any, tmp_path: Path) -> None:
    """Each samples for itself, from logits that it has processed for itself."""
    settings = {"tensor_parallel_size": 2, "distributed_executor_backend": "mp"}
    cores = {**ALONE, "VLLM_CPU_OMP_THREADS_BIND": "0|1"}
    found = engine.run_apart([REQUESTS], tmp_path / "out.json", plugin=True, settings=settings, environment=cores)
    assert [one["tokens"] for one in found["batches"][0]] == starts["synchronous"]["tokens"]
