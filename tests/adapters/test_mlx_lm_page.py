"""The page on mlx-lm: its code runs, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mlx-lm.md"


def test_its_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    printed = []
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        exec(compile(block, PAGE.name, "exec"), names)
        printed.append(capsys.readouterr().out)
    date = r"\d{4}-(0[1-9]|1[0-2])-[0-3]\d\n"
    assert re.fullmatch(date, printed[0])
    # The drafts change nothing, and neither does the cache.
    assert re.fullmatch(rf"({date})\1", printed[1])
    assert re.fullmatch(date, printed[2])
