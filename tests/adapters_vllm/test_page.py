"""The page on vLLM: its code runs, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "vllm.md"

# What each block prints.
PRINTED = (
    r"\d{4}-\d{2}-\d{2}\n",
    r"(yes|no)\n",
    r"400 config\['json_schema'\]: 'type' at #/properties/price is 'money'; allowed is one of .*\n",
    r"\['age', 'name'\]\n",
    r"\['age', 'name'\]\n",
    r"\{('yes', 'no'|'no', 'yes')\}\n",
    r" (yes|no) True\n",
)


def test_its_code_runs(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    try:
        for block, wanted in zip(blocks, PRINTED, strict=True):
            capsys.readouterr()
            here = block.replace("http://localhost:8000/v1", str(client.base_url)).replace('"MODEL"', '"demo"')
            # To compile the model takes longer than all else.
            here = here.replace("max_model_len=512,", "max_model_len=512, enforce_eager=True,")
            exec(compile(here, PAGE.name, "exec"), names)
            # vLLM shows how far it is among it.
            assert re.search(rf"(^|\n|\r){wanted}", capsys.readouterr().out)
    finally:
        if "llm" in names:
            names["llm"].llm_engine.engine_core.shutdown()
