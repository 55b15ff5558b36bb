"""The page on llama.cpp: its code runs, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "llama-cpp.md"


def test_its_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    printed = []
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)
        printed.append(capsys.readouterr().out)
    dates = r"\d{4}-(0[1-9]|1[0-2])-[0-3]\d\n"
    assert re.fullmatch(dates, printed[0])
    assert re.fullmatch(r"[^.\n]+\n", printed[1])
    assert re.fullmatch(dates, printed[2])
