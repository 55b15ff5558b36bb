"""The cells of notebooks that need vLLM: each runs as a script, and prints what the notebook stores."""

from __future__ import annotations

import json
from pathlib import Path

from tests.adapters_vllm.test_page import run
from tests.docs.pages import ROOT, Example

NOTEBOOK = ROOT / "docs" / "notebooks" / "one-processor-four-engines.ipynb"


def test_the_cell_prints_what_the_notebook_stores(tmp_path: Path) -> None:
    cells = {cell["id"]: cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]}
    (output,) = cells["vllm"]["outputs"]
    printed = run(Example("".join(cells["vllm"]["source"]), None), tmp_path)
    # Lines of vLLM's about its progress stand around them.
    assert "".join(output["text"]) in printed.replace("\r", "\n"), printed
