"""Importing the core brings in no engine and changes nothing outside it; the probe that says so can fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.import_probe import ENGINES

PROBE = Path(__file__).with_name("import_probe.py")
CORE = Path(__file__).parents[2] / "processors"


def probe(package: str, *roots: Path) -> dict[str, list[str]]:
    command = [sys.executable, "-I", str(PROBE), package, *map(str, roots)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    result: dict[str, list[str]] = json.loads(run.stdout)
    return result


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    """A folder with an empty module for each engine: so one that is not installed would be noticed too."""
    folder = tmp_path / "engines"
    folder.mkdir()
    for engine in ENGINES:
        (folder / f"{engine}.py").touch()
    return folder


def test_core_imports_no_engine_and_changes_no_setting(engines: Path) -> None:
    assert probe("logitkit", engines, CORE) == {"engines": [], "changed": []}


def test_probe_sees_engines_however_they_are_imported(engines: Path, tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    guarded, *others = ENGINES
    (planted / "__init__.py").write_text(f"try:\n    import {guarded}\nexcept ImportError:\n    pass\n")
    (planted / "submodule.py").write_text("".join(f"import {engine}\n" for engine in others))
    assert probe("planted", engines, tmp_path) == {"engines": list(ENGINES), "changed": []}


def test_probe_sees_changed_settings(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(
        """
import os, random, sys, warnings
import numpy, torch
torch.set_default_dtype(torch.float64)
os.environ["PLANTED"] = "1"
torch.set_grad_enabled(False)
torch.set_float32_matmul_precision("medium")
numpy.seterr(all="ignore")
torch.manual_seed(1)
sys.setrecursionlimit(sys.getrecursionlimit() + 1)
torch.set_num_threads(torch.get_num_threads() + 1)
warnings.simplefilter("ignore")
"""
    )
    result = probe("planted", tmp_path)
    assert result["changed"] == [
        "default dtype",
        "environment",
        "gradients",
        "matmul precision",
        "numpy errors",
        "random state",
        "recursion limit",
        "threads",
        "warning filters",
    ]
