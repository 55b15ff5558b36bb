"""The table of the documentation says how tests ended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.conformance import matrix
from tests.conformance.families import FAMILIES

TESTS = """
import pytest
from tests.conformance import matrix

def test_good(record_property):
    matrix.claim(record_property, "transformers", "greedy", "languages")

def test_bad(record_property):
    matrix.claim(record_property, "transformers", "greedy", "schemas")
    assert False

@pytest.mark.parametrize("mode", ["beams", "batched"])
def test_absent(record_property, mode):
    matrix.claim(record_property, "llama.cpp", mode, "")
    assert mode == "beams"

def test_other():
    pass
"""


def test_a_cell_is_the_outcome_of_its_test(tmp_path: Path) -> None:
    (tmp_path / "test_cells.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = ["-p", "tests.conformance.report", f"--conformance-report={tmp_path / 'report'}", f"--rootdir={tmp_path}"]
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(tmp_path / "pytest.ini"), *options, str(tmp_path)]
    run = subprocess.run(command, cwd=matrix.ROOT, capture_output=True, text=True, check=False)
    assert "2 failed, 3 passed" in run.stdout
    rows = matrix.cells_of(json.loads((tmp_path / "report").read_text()))
    ours, llama = matrix.installed("transformers"), matrix.installed("llama.cpp")
    assert rows[ours, "greedy"] == ["pass", "fail", *["not tested"] * (len(FAMILIES) - 2)]
    assert rows[llama, "beams"][0] == "no: llama-cpp-python cannot search with beams"
    assert rows[llama, "batched"][0] == "fail"
    assert rows["mlx-lm", "beams"][0] == rows["vLLM", "greedy"][0] == "not tested"
    assert f"| {ours} | greedy | pass | fail | not tested |" in matrix.table(rows)
