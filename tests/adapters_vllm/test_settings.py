"""The settings of an operator; and a plugin that is turned off does nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS
from logitkit_adapters.vllm.settings import check_variables, settings, vllm_limits
from tests.adapters_vllm import engine
from tests.adapters_vllm.test_starts import ALONE, without_bytes


@pytest.fixture(autouse=True)
def defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith(("LOGITKIT_VLLM_", "LOGITKIT_SERVER_")):
            monkeypatch.delenv(name)


def check(config: Any) -> None:
    from vllm import SamplingParams

    from logitkit_adapters.vllm import LogitsProcessor

    LogitsProcessor.validate_params(SamplingParams(extra_args={"logitkit": config}))


def test_defaults() -> None:
    found = settings()
    assert (found.enabled, found.server.limits, found.server.characters) == (True, lk.Limits(), 2**20)
    assert not found.reads_openai_fields
    assert (found.server.waiting, found.server.seconds) == (64, 60)
    assert 1 <= found.server.processes <= 4
    check_variables()


def test_limits_of_all_servers_hold_here_unless_vllm_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGITKIT_SERVER_MAX_WAITING", "7")
    monkeypatch.setenv("LOGITKIT_SERVER_MAX_SECONDS", "8")
    monkeypatch.setenv("LOGITKIT_VLLM_MAX_SECONDS", "9")
    assert (vllm_limits().waiting, vllm_limits().seconds) == (7, 9)
    check_variables()


@pytest.mark.parametrize("name", ["LOGITKIT_VLLM_MAX_WROK", "LOGITKIT_VLLM_RESPONSEFORMAT", "LOGITKIT_SERVER_PLUGIN"])
def test_an_unknown_variable_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "5")
    with pytest.raises(ConfigurationError, match=f"the environment variable {name} is not a setting; allowed are"):
        check_variables()


def test_a_kind_keeps_its_own_limits_where_none_are_set() -> None:
    """Such as lists of banned strings, which may have more states: kinds ask whether the limits are this very object."""
    assert settings().server.limits is DEFAULT_LIMITS


def test_limits_are_the_operator_s(monkeypatch: pytest.MonkeyPatch) -> None:
    check({"regex": "(a|b){77}"})
    monkeypatch.setenv("LOGITKIT_VLLM_MAX_STATES", "50")
    with pytest.raises(ValueError, match="more than 50 states"):
        check({"regex": "(a|b){78}"})
    monkeypatch.setenv("LOGITKIT_VLLM_MAX_STATES", "5000")
    monkeypatch.setenv("LOGITKIT_VLLM_MAX_WORK", "100")
    with pytest.raises(ValueError, match="more than 100 steps"):
        check({"regex": "(a|b){79}"})
    monkeypatch.setenv("LOGITKIT_VLLM_MAX_CHARACTERS", "20")
    with pytest.raises(ConfigurationError, match="has 21 characters; allowed are up to 20"):
        check('{"regex": "aaaaaaaa"}')


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LOGITKIT_VLLM_PLUGIN", "no"),
        ("LOGITKIT_VLLM_PLUGIN", ""),
        ("LOGITKIT_VLLM_RESPONSE_FORMAT", "true"),
        ("LOGITKIT_VLLM_MAX_STATES", "0"),
        ("LOGITKIT_VLLM_MAX_STATES", "-5"),
        ("LOGITKIT_VLLM_MAX_WORK", "many"),
        ("LOGITKIT_VLLM_MAX_WORK", "1e6"),
        ("LOGITKIT_VLLM_MAX_CHARACTERS", "9" * 30),
        ("LOGITKIT_VLLM_PROCESSES", "0"),
    ],
)
def test_a_wrong_value_names_its_variable(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"the environment variable {name} is '{value}'; allowed are"):
        settings()


@pytest.mark.parametrize(("value", "reads"), [("on", True), ("1", True), ("off", False), ("0", False)])
def test_the_switch_of_the_fields_of_openai(value: str, reads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGITKIT_VLLM_RESPONSE_FORMAT", value)
    assert settings().reads_openai_fields is reads
    monkeypatch.setenv("LOGITKIT_VLLM_PLUGIN", "off")
    assert not settings().reads_openai_fields


def test_a_request_is_refused_where_the_plugin_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGITKIT_VLLM_PLUGIN", "off")
    for config in ({"regex": "a"}, '{"regex": "a"}', "no JSON"):
        with pytest.raises(ConfigurationError, match="its operator has set LOGITKIT_VLLM_PLUGIN=off"):
            check(config)
    check(None)


def test_an_engine_starts_as_without_the_plugin(tmp_path: Path) -> None:
    """Whether the plugin is named or only found, and even with a tokenizer that it cannot read: it reads nothing."""
    model = str(without_bytes(tmp_path))
    task = {
        "starts": {
            "found": {"logits_processors": None, "model": model},
            "named": {"logits_processors": [engine.PLUGIN], "model": model},
        },
        "requests": [("Name: ", {"max_tokens": 4, "ignore_eos": True})],
    }
    environment = {**ALONE, "LOGITKIT_VLLM_PLUGIN": "off"}
    found = engine.run_script("tests.adapters_vllm.starts", task, tmp_path / "out.json", environment)
    for name in ("found", "named"):
        assert len(found[name]["tokens"][0]) == 4, json.dumps(found)


def test_a_processor_is_not_a_configuration() -> None:
    with pytest.raises(ConfigurationError, match=r"the processor TopK itself.*logitkit\.to_config"):
        check(lk.TopK(5))
