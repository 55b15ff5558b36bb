"""The names of vLLM on which the plugin stands: all are there, and a missing one refuses requests or warns."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from logitkit.errors import ConfigurationError
from logitkit_adapters.vllm import admission, internals
from logitkit_adapters.vllm.internals import INTERNALS, Internal

CONFIG = SimpleNamespace(
    model_config=SimpleNamespace(logits_processors=["x"], is_diffusion=False),
    scheduler_config=SimpleNamespace(async_scheduling=False),
    speculative_config=None,
    use_v2_model_runner=True,
)

ADAPTER = Path(internals.__file__).parent


@pytest.fixture(autouse=True)
def looked_up_again() -> Any:
    internals.missing.cache_clear()
    yield
    internals.missing.cache_clear()


def test_this_release_has_all_of_them() -> None:
    assert internals.missing() == ()
    assert internals.why_refused() is None


def test_private_names_of_vllm_are_listed() -> None:
    """Each import of a module of vLLM's, except its interface for plugins and its public package, has an entry."""
    public = {"vllm", "vllm.v1.sample.logits_processor", "vllm.v1.worker.gpu.sample.logits_processor"}
    listed = {internal.module for internal in INTERNALS} | public | {"vllm.platforms"}
    imported = {
        found
        for file in ADAPTER.glob("*.py")
        for found in re.findall(r"^ *from (vllm(?:\.[a-z0-9_.]+)?) import", file.read_text("utf-8"), re.MULTILINE)
    }
    assert imported - listed == set()


def without(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    monkeypatch.delattr(owner, name)
    internals.missing.cache_clear()


def test_requests_are_refused_without_what_they_need(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import vllm
    from vllm import SamplingParams
    from vllm.v1.worker.gpu.sample import logits_processor

    from logitkit_adapters.vllm import LogitsProcessor

    without(monkeypatch, logits_processor, "LogitsContext")
    with caplog.at_level(logging.WARNING):
        internals.report_internals()
    lacks = "which lacks vllm.v1.worker.gpu.sample.logits_processor.LogitsContext"
    assert f"cannot serve vLLM {vllm.__version__}, {lacks}" in caplog.text
    # As in the methods of an engine, whose frame the plugin finds.
    self = SimpleNamespace(vllm_config=CONFIG)
    assert self.vllm_config is CONFIG
    with pytest.raises(ConfigurationError, match=rf"{lacks}\. Install a release .* tested with: 0\.32 or 0\.33"):
        LogitsProcessor.validate_params(SamplingParams(extra_args={"logitkit": {"regex": "a"}}))
    LogitsProcessor.validate_params(SamplingParams(extra_args={"other": 1}))
    LogitsProcessor.validate_params(SamplingParams())


@pytest.mark.parametrize(
    ("path", "name", "warning"),
    [
        (
            "vllm.entrypoints.openai.completion.protocol:CompletionRequest",
            "to_beam_search_params",
            "beside use_beam_search, is ignored",
        ),
        ("vllm.exceptions", "GracefulHTTPError", "they are answered with status 500"),
        ("vllm.v1.engine.llm_engine:LLMEngine", "step", "a text that ends early looks complete offline"),
    ],
)
def test_other_names_are_warnings(
    path: str, name: str, warning: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import pkgutil

    without(monkeypatch, pkgutil.resolve_name(path), name)
    with caplog.at_level(logging.WARNING):
        internals.report_internals()
    assert f"lacks {path.replace(':', '.')}" in caplog.text
    assert warning in caplog.text
    assert internals.why_refused() is None


def test_another_release_is_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    import vllm

    monkeypatch.setattr(vllm, "__version__", "0.34.1")
    with caplog.at_level(logging.WARNING):
        internals.report_internals()
    assert "logitkit was tested with vLLM 0.32 and 0.33, and this is vLLM 0.34.1" in caplog.text
    caplog.clear()
    monkeypatch.setattr(vllm, "__version__", "0.33.2")
    internals.report_internals()
    assert caplog.text == ""


async def _not_the_same(self: object, params: object) -> None: ...


def _not_a_coroutine(self: object, request_id: str, prompt: object, params: object) -> None: ...


@pytest.mark.parametrize("other", [_not_the_same, _not_a_coroutine])
def test_a_method_that_has_changed_stays_as_it_is(other: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.engine.async_llm import AsyncLLM

    monkeypatch.setattr(AsyncLLM, "add_request", other)
    admission._install_waiting()
    assert AsyncLLM.add_request is other
    assert internals.is_missing("AsyncLLM.add_request")


def test_vllm_without_an_engine_on_the_stack_is_refused() -> None:
    """Otherwise, a configuration would be judged for a vocabulary of 256 bytes."""
    from vllm import SamplingParams

    from logitkit_adapters.vllm import LogitsProcessor

    admits: dict[str, Any] = {"__name__": "vllm.v1.engine.other"}
    exec("def admit(check, params):\n    return check(params)", admits)
    with pytest.raises(ConfigurationError, match="does not find the engine"):
        admits["admit"](LogitsProcessor.validate_params, SamplingParams(extra_args={"logitkit": {"regex": "a"}}))
    admits["admit"](LogitsProcessor.validate_params, SamplingParams(extra_args={"other": 1}))
    LogitsProcessor.validate_params(SamplingParams(extra_args={"logitkit": {"regex": "a"}}))


def test_every_entry_says_what_it_is_for() -> None:
    assert all(isinstance(one, Internal) and one.purpose and one.parts for one in INTERNALS)
