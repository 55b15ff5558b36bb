"""The outcome of tests whose engine is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.missing_engines import INSTALL, missing

ROOT = Path(__file__).parents[1]

# A test module that imports the engine, a page that does, a doctest, and a module that asks pytest whether it is there.
TARGETS = {
    "mlx_lm": (
        *(
            "tests/adapters/test_mlx_lm_hidden_output.py",
            "tests/docs/test_examples.py::test_a_page_runs_alone[docs/mlx-lm.md]",
        ),
        *("adapters/logitkit_adapters/mlx_lm/hook.py", "adapters/logitkit_adapters/mlx_lm/sequence.py"),
    ),
    "llama_cpp": (
        "tests/docs/test_examples.py::test_a_page_runs_alone[docs/llama-cpp.md]",
        "tests/processors/test_llama_cpp_samplers.py",
    ),
}


def run(engine: str, ci: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules[{engine!r}] = None\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--continue-on-collection-errors",
        *TARGETS[engine],
    ]
    environment = {**os.environ, "PYTHONPATH": str(folder), "CI": ci}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("engine", TARGETS)
def test_they_are_skipped_with_the_line_that_installs_it(engine: str, tmp_path: Path) -> None:
    done = run(engine, "", tmp_path)
    assert done.returncode in (0, 5), done.stdout  # 5: no test was left
    assert "passed" not in done.stdout
    assert "failed" not in done.stdout
    assert "error" not in done.stdout
    assert INSTALL[engine] in done.stdout


@pytest.mark.parametrize("engine", TARGETS)
def test_in_ci_they_fail(engine: str, tmp_path: Path) -> None:
    done = run(engine, "true", tmp_path)
    assert done.returncode not in (0, 5), done.stdout
    assert "skipped" not in done.stdout.splitlines()[-1]
    for target in TARGETS[engine]:
        assert f"ERROR {target}" in done.stdout or f"FAILED {target}" in done.stdout


def test_only_engines_are_missed() -> None:
    assert missing(ModuleNotFoundError(name="mlx.core")) == INSTALL["mlx"]
    assert missing(ModuleNotFoundError(name="mlxtend")) is None
    assert missing(ModuleNotFoundError(name="torch")) is None
    error = ImportError("needs mlx-lm")
    error.__cause__ = ModuleNotFoundError(name="mlx_lm.utils")
    assert missing(error) == INSTALL["mlx_lm"]
    assert missing(ValueError()) is None
