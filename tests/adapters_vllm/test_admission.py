"""A server's requests wait for what they ask for to compile elsewhere: neither the front end nor a worker compiles anything."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import logitkit as lk
from logitkit_adapters.vllm import admission
from tests.adapters_vllm import engine
from tests.own import OwnTopA

PATTERNS = ["[a-z]{3}", r"[0-9](,[0-9]){2}", "x|yz"]
REFUSED = ["(a", "(a|b)*a(a|b){40}"]


def test_requests_wait_for_another_process(tmp_path: Path) -> None:
    # Each twice, among requests that ask for nothing, and for what is read in place.
    configs = [json.dumps({"regex": pattern}) for pattern in [*PATTERNS, *REFUSED]]
    asked = [*configs, *configs, None, '{"top_k": 1}', '{"top_k": "1"}', "{"]
    found = engine.run_script("tests.adapters_vllm.admitting", asked, tmp_path / "out.json", {})
    assert found["started"]
    first, again = found["rounds"]
    for texts in (first, again):
        for number, pattern in enumerate([*PATTERNS, *REFUSED] * 2):
            if pattern in PATTERNS:
                assert re.fullmatch(pattern, texts[number])
            else:
                assert texts[number].startswith("VLLMValidationError"), texts[number]
        assert texts[10]
        assert texts[11]
        assert "config['top_k'] is '1'" in texts[12]
        assert "not valid JSON" in texts[13]
    assert found["full"].startswith("GracefulHTTPError 503: "), found["full"]
    assert "Try again in 1 second" in found["full"]
    assert found["here"] == []
    assert found["elsewhere"] == ["finds"] * len(PATTERNS)


def test_vllm_installs_the_front_end_s_part_when_it_starts() -> None:
    """Else the first requests would come before it, and beams among them."""
    with (engine.ROOT / "pyproject.toml").open("rb") as file:
        groups = tomllib.load(file)["project"]["entry-points"]
    (name,) = groups["vllm.general_plugins"].values()
    assert EntryPoint("logitkit", name, "vllm.general_plugins").load() is admission.install


@pytest.mark.parametrize(
    ("config", "cheap"),
    [
        ({"top_k": 5, "temperature": 0.5, "logit_bias": {"3": 1}}, True),
        ({"min_new_tokens": 5, "forced_eos": None, "forced_tokens": [3]}, True),
        ({"top_k": 5, "regex": "a"}, False),
        ({"dry": {"multiplier": 0.8}}, False),
        ({"then": {}}, False),
        ({"chain": [{"top_k": 5}]}, False),
        ({"unknown": 5}, False),
        ({"own_top_a": 0.5}, False),
        ([], True),
    ],
)
def test_only_short_configurations_that_compile_nothing_are_read_in_place(config: object, cheap: bool) -> None:
    lk.register("own_top_a", OwnTopA)
    text = json.dumps(config)
    assert admission._is_cheap(text) == cheap
    assert not admission._is_cheap(text + " " * 1024)
