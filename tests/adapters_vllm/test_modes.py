"""Modes of vLLM in which the plugin's masks have no effect: requests for processors are refused, and others run as they would."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from logitkit.errors import ConfigurationError
from logitkit_adapters.vllm import modes
from tests.adapters_vllm import engine
from tests.adapters_vllm.test_starts import ALONE, CONSTRAINED, PLAIN
from tests.adapters_vllm.test_v2 import DRAFTS, V2

MISSPELT = engine.PROMPTS[0], {**PLAIN[1], "extra_args": {"logitkit": {"regx": "a"}}}
TRACE = [50, 60, 70]
TRACED = engine.PROMPTS[0], {**PLAIN[1], "trace_decode_token_ids": TRACE}
BOTH = engine.PROMPTS[0], {**CONSTRAINED[1], "trace_decode_token_ids": TRACE}
SYNTHETIC = {
    **DRAFTS["speculative_config"],
    "rejection_sample_method": "synthetic",
    "synthetic_acceptance_rates": [1.0, 1.0, 1.0],
}


def started(tmp_path: Path, name: str, settings: dict[str, Any], requests: Any, environment: dict[str, str]) -> Any:
    task = {"starts": {name: settings}, "requests": [], "alone": {name: requests}}
    return engine.run_script("tests.adapters_vllm.starts", task, tmp_path / "out.json", environment)[name]


def test_drafts_on_v1_refuse_requests(tmp_path: Path) -> None:
    """The plugin is only installed; named, vLLM would not start."""
    found = started(tmp_path, "drafts", DRAFTS, [PLAIN, CONSTRAINED, MISSPELT], ALONE)
    assert not found["v2"]
    plain, constrained, misspelt = found["alone"]
    assert plain["text"]
    assert "drops processors when it decodes speculatively" in constrained["error"]
    assert "VLLM_USE_V2_MODEL_RUNNER=1" in constrained["error"]
    assert "error" in misspelt


def test_drafts_that_are_accepted_whatever_the_mask_says_refuse_requests(tmp_path: Path) -> None:
    settings = {"speculative_config": SYNTHETIC, "logits_processors": [engine.PLUGIN]}
    found = started(tmp_path, "synthetic", settings, [PLAIN, CONSTRAINED], V2)
    assert found["v2"]
    plain, constrained = found["alone"]
    assert plain["text"]
    assert "accepts drafts whatever the mask says" in constrained["error"]


def test_a_trace_of_tokens_is_refused_beside_a_configuration(tmp_path: Path) -> None:
    settings = {"enable_trace_replay": True, "logits_processors": [engine.PLUGIN]}
    found = started(tmp_path, "trace", settings, [TRACED, CONSTRAINED, BOTH], V2)
    traced, constrained, both = found["alone"]
    assert traced["tokens"] == TRACE
    assert re.fullmatch("[0-9]{3}", constrained["text"])
    assert "trace_decode_token_ids replaces the sampled tokens" in both["error"]


def config(v2: bool = False, **more: Any) -> Any:
    model = SimpleNamespace(is_diffusion=more.pop("is_diffusion", False), logits_processors=["named"])
    scheduler = SimpleNamespace(async_scheduling=False)
    found = {"speculative_config": None, "model_config": model, "scheduler_config": scheduler, **more}
    return SimpleNamespace(use_v2_model_runner=v2, **found)


async def _parts() -> AsyncGenerator[str, None]:
    yield "part"


def test_modes_that_no_engine_here_has(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.platforms import current_platform

    modes.check_mode(config(), SimpleNamespace())
    modes.check_mode(
        config(v2=True, speculative_config=SimpleNamespace(rejection_sample_method="block")), SimpleNamespace()
    )
    with pytest.raises(ConfigurationError, match="a diffusion model has a sampler of its own"):
        modes.check_mode(config(v2=True, is_diffusion=True), SimpleNamespace())
    with pytest.raises(ConfigurationError, match=r"the prompt is streamed in parts.* send the whole prompt"):
        modes.check_mode(config(), SimpleNamespace(), _parts())
    monkeypatch.setattr(type(current_platform), "is_tpu", lambda self: True)
    with pytest.raises(ConfigurationError, match="vLLM loads no processors on a TPU"):
        modes.check_mode(config(), SimpleNamespace())


def test_the_list_of_modes_names_each_once() -> None:
    assert modes.__doc__ is not None
    rows = [line for line in modes.__doc__.splitlines() if line.startswith("| ") and not line.startswith("| mode |")]
    assert len(rows) == len(modes.MODES)
