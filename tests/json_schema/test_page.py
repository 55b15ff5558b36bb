"""The page on JSON Schema: its code runs, and prints what it should."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "json-schema.md"


def test_its_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    printed = []
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        exec(compile(block, PAGE.name, "exec", dont_inherit=True), names)
        printed.append(capsys.readouterr().out)
    assert printed == ["name True\n", "Order\n", "list\n"]
