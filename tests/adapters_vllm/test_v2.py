"""The V2 model runner, whose kernels run in Triton's interpreter here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adapters_vllm import engine, mixed, schemas, together

SHIM = Path(__file__).with_name("triton_on_cpu")
V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "PYTHONPATH": str(SHIM)}
DRAFTS = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}}

# The interpreter is slow, so texts are short, and so must the cache be for requests to get in one another's way.
REQUESTS = mixed.requests(64, 28)
SMALL = {"num_gpu_blocks_override": 10}
# As vLLM does where it can: it schedules ahead of the device.
AHEAD = {**together.SETTINGS, **SMALL, "async_scheduling": True, "logprobs_mode": "processed_logprobs"}
SCHEMAS = schemas.requests(engine.PROMPTS[3])


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The requests at once, with drafts."""
    out = tmp_path_factory.mktemp("drafted") / "out.json"
    return engine.run_apart([REQUESTS], out, plugin=True, settings={**DRAFTS, **SMALL}, environment=V2)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Each request by itself, and others that use what vLLM has of its own; without drafts, and ahead of the device."""
    out = tmp_path_factory.mktemp("alone") / "out.json"
    batches = [together.plain(12, 16, plugin=True), SCHEMAS, together.REQUESTS, *([request] for request in REQUESTS)]
    return engine.run_apart(batches, out, plugin=True, settings=AHEAD, environment=V2)


@pytest.mark.parametrize("number", range(64))
def test_each_output_is_the_one_that_was_asked_for(drafted: Any, number: int) -> None:
    mixed.check(number, drafted["batches"][0][number])


def test_requests_came_back_with_what_they_had_said(drafted: Any) -> None:
    assert drafted["v2"]
    assert drafted["accepted"] > 20
    assert drafted["preemptions"] > 4
    assert len(drafted["resumptions"]) > 4
    assert sum(one["reason"] == "stop" for one in drafted["batches"][0]) > 24


def test_each_request_is_as_it_is_alone(drafted: Any, alone: Any) -> None:
    assert alone["v2"]
    assert alone["scheduler"] == "AsyncScheduler"
    for number, (one, (other,)) in enumerate(zip(drafted["batches"][0], alone["batches"][3:], strict=True)):
        if not mixed.is_drawn(number):
            assert one == other, number


def test_texts_of_schemas_are_whole(alone: Any) -> None:
    for (_, schema), one in zip(schemas.CONFIGURATIONS, alone["batches"][1], strict=True):
        schemas.check(one["text"], schema)


def test_what_vllm_has_of_its_own_composes(alone: Any) -> None:
    together.check(alone["batches"][2])


def test_requests_that_ask_for_nothing_are_as_without_the_plugin(alone: Any, tmp_path: Path) -> None:
    """With the same neighbours, of which vLLM's own numbers depend, down to the last bit of each logprob."""
    batches = [together.plain(12, 16, plugin=False)]
    without = engine.run_apart(batches, tmp_path / "out.json", plugin=False, settings=AHEAD, environment=V2)
    together.check_plain(alone["batches"][0], without["batches"][0])
