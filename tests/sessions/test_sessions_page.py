"""The page on sessions: its code runs, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sessions.md"


# The page names the argument of transformers before 5.24.
@pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated:FutureWarning")
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
    assert re.fullmatch(r" .+\nTrue\n", printed[2])
    assert printed[3:5] == ["True\n", "True\nTrue\n"]
    assert printed[5:7] == ["[0, 2, 2] True\nTrue\nTrue length\n", "True\n8\n"]
    assert printed[7] in (" Paris\n", " Rome\n")
