"""The page on sessions: its code runs, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sessions.md"


def test_its_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    printed = []
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        exec(compile(block, PAGE.name, "exec"), names)
        printed.append(capsys.readouterr().out)
    assert printed[0] == ""
    assert re.fullmatch(
        r"The price of tea is \d\.\d\d euros\.\nQuestion: Is that much\?\nAnswer: (yes|no)\nTrue\nThe price [1-9]\d*\n",
        printed[1],
    )
    assert printed[2:4] == ["True\nTrue\n", "True\n8\n"]
    assert printed[4] in (" Paris\n", " Rome\n")
