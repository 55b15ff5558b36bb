"""The README's example, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

README = Path(__file__).parents[2] / "README.md"


def test_the_example_runs() -> None:
    found = re.search(r"^## Use it with vLLM$.*?```python\n(.*?)```", README.read_text(), re.DOTALL | re.MULTILINE)
    assert found
    names: dict[str, Any] = {}
    exec(compile(found[1], str(README), "exec"), names)
    assert re.fullmatch(r" \d{4}-\d{2}-\d{2}", names["text"])
