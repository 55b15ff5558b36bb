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
    # To compile the model takes longer than all else.
    example = found[1].replace("LLM(str(model_dir()),", "LLM(str(model_dir()), enforce_eager=True,")
    exec(compile(example, str(README), "exec"), names)
    names["llm"].llm_engine.engine_core.shutdown()
    assert re.fullmatch(r" \d{4}-\d{2}-\d{2}", names["text"])
