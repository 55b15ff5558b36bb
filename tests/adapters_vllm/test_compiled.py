"""Automata that the front end compiled are found by the workers of its engine."""

from __future__ import annotations

import re
from pathlib import Path

from tests.adapters_vllm import engine


def test_the_worker_of_an_engine_finds_what_the_front_end_compiled(tmp_path: Path) -> None:
    patterns = ["[a-z]{3}", r"[0-9](,[0-9]){2}", "x|yz"]
    processes = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    found = engine.run_script("tests.adapters_vllm.compiling", {"patterns": patterns}, tmp_path / "out.json", processes)
    assert found["here"] == ["compiles"] * 3
    assert found["elsewhere"] == ["finds"] * 3
    for pattern, text in zip(patterns, found["texts"], strict=True):
        assert re.fullmatch(pattern, text)
