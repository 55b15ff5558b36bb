"""The page on processors of one's own: its code runs, and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "own-processors.md"


def test_its_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text("utf-8")
    names: dict[str, Any] = {"__name__": "own_processors"}
    printed = []
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, PAGE.name, "exec", dont_inherit=True), names)
        printed.append(capsys.readouterr().out)
    messages = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert [out for out in printed if out] == ["True\n", *messages, "[11]\n"]
