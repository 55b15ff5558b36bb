"""All kernels compile for GPUs, without one, use few registers and little memory, and round as tensor operations do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import CI

pytest.importorskip("triton", reason="Triton is not installed: pip install --no-deps triton")

ROOT = Path(__file__).parents[2]
# A processor of an H100 runs eight programs of four warps at once if threads have 64 registers. Rows that branch are few.
# Truncations are limited by memory, and two programs of theirs at once are enough; with eight warps, threads may have 128.
REGISTERS = {
    "branching_kernel": 112,
    "float64": 80,
    "ngram_kernel": 80,
    "dry_kernel": 104,
    "sum_kernel": 88,
    "share_kernel": 96,
    "temperature_kernel": 104,
    "lists_kernel": 80,
    "digit_kernel": 128,
    "tie_kernel": 128,
    "cut_kernel": 168,
}
MOST_REGISTERS, MOST_STACK, MOST_SHARED = 72, 64, 1024


def kernels() -> list[str]:
    """Return the names of all kernels."""
    folder = ROOT / "processors" / "logitkit" / "kernels"
    return [name for file in folder.glob("*.py") for name in re.findall(r"@kernel\ndef (\w+)", file.read_text())]


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
def test_kernels_compile(target: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join(str(ROOT / part) for part in ("processors", "adapters", "."))
    environment["PYTHONPATH"] += os.pathsep + os.environ.get("PYTHONPATH", "")
    command = [sys.executable, "-m", "tests.kernels.compiling", *([] if CI else ["--one-of-each"]), target]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    (found,) = json.loads(run.stdout).values()
    assert {name.split(",")[0] for name in found} == set(kernels())
    for name, used in found.items():
        most = next((most for part, most in REGISTERS.items() if part in name), MOST_REGISTERS)
        assert used["registers"] <= most, (name, used)
        assert used["stack"] <= MOST_STACK, (name, used)
        assert used["shared"] <= MOST_SHARED, (name, used)
        assert used["inexact"] == 0, (name, used)
