"""The README's examples, run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[2] / "README.md"
EXAMPLES = dict(
    re.findall(r"^## Use it with (.*?)$.*?```python\n(.*?)```", README.read_text(), re.DOTALL | re.MULTILINE)
)
PACKAGES = {"transformers": "transformers", "mlx-lm": "mlx_lm", "llama.cpp": "llama_cpp"}


def test_every_engine_has_an_example() -> None:
    # That of vLLM is run in the environment of vLLM.
    assert EXAMPLES.keys() == {*PACKAGES, "vLLM"}


@pytest.mark.parametrize("engine", PACKAGES)
def test_an_example_runs(engine: str) -> None:
    pytest.importorskip(PACKAGES[engine], reason=f"needs {engine}: see the README on how to install it")
    names: dict[str, Any] = {}
    exec(compile(EXAMPLES[engine], str(README), "exec"), names)
    # mlx-lm takes off a space at the beginning.
    assert re.fullmatch(r" ?\d{4}-\d{2}-\d{2}", names["text"])
