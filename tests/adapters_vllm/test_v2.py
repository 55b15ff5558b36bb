"""The V2 model runner, whose kernels run in Triton's interpreter here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.adapters_vllm import engine, schemas
from tests.adapters_vllm.test_engine import CONFIGURATIONS, asked

SHIM = Path(__file__).with_name("triton_on_cpu")
V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "PYTHONPATH": str(SHIM)}
DRAFTS = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}}


@pytest.mark.parametrize("settings", [{}, DRAFTS], ids=["plain", "drafts"])
def test_requests_on_v2(settings: dict[str, Any], tmp_path: Path) -> None:
    requests = [(engine.prompt(n), {**asked(n), "temperature": 0.0, "max_tokens": 40}) for n in range(24)]
    some = requests[:12]
    of_schemas = schemas.requests(engine.PROMPTS[3])
    batches = [requests, *([request] for request in some), of_schemas]
    result = engine.run_apart(batches, tmp_path / "out.json", plugin=True, settings=settings, environment=V2)
    assert result["v2"]
    assert result["accepted" if settings else "preemptions"] > 0
    together, *alone, texts = result["batches"]
    finished = 0
    for number, (_, text, reason) in enumerate(together):
        if reason == "stop":
            assert re.fullmatch(CONFIGURATIONS[number % len(CONFIGURATIONS)][1], text), (number, text)
            finished += 1
    assert finished > 12
    assert [one[0] for one in alone] == together[: len(some)]
    for (_, schema), (_, text, _) in zip(schemas.CONFIGURATIONS, texts, strict=True):
        schemas.check(text, schema)
