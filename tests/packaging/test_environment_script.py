"""`scripts/environment` adopts a current environment at once, and explains what it cannot use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
BASH = shutil.which("bash") or "bash"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what the script reads, with no environment yet."""
    folder = tmp_path / "clone"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "environment", folder / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    return folder


def call(clone: Path, python: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BASH, "-c", "source scripts/environment; environment test; echo ready"],
        cwd=clone,
        env={**os.environ, "PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
    )


def test_says_which_python_it_needs(clone: Path) -> None:
    result = call(clone, python="python-of-last-century")
    assert result.returncode != 0
    assert "needs Python 3.11, 3.12 or 3.13" in result.stderr
    assert "python-of-last-century" in result.stderr
    assert "ready" not in result.stdout
    assert not (clone / ".venv").exists()


def test_keeps_an_environment_it_cannot_use(clone: Path) -> None:
    broken = clone / ".venv" / "bin" / "python"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    result = call(clone, python="python3")
    assert result.returncode != 0
    assert "Remove it" in result.stderr
    assert broken.exists()


def test_is_quick_when_the_environment_is_current_and_notices_a_change(clone: Path) -> None:
    stamp = subprocess.run(
        [BASH, "-c", 'echo "$PWD $(cat pyproject.toml constraints.txt | cksum)"'],
        cwd=clone,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (clone / ".venv").mkdir()
    for group in ("project", "test"):
        (clone / ".venv" / f"logitkit-{group}").write_text(stamp)

    start = time.perf_counter()
    result = call(clone, python="python-of-last-century")  # with nothing to do, no Python is asked for
    assert time.perf_counter() - start < 1
    assert (result.returncode, result.stdout) == (0, "ready\n")

    with (clone / "constraints.txt").open("a") as constraints:
        constraints.write("# changed\n")
    assert call(clone, python="python-of-last-century").returncode != 0


def test_the_oldest_versions_are_those_of_the_project() -> None:
    result = subprocess.run(
        [BASH, "-c", f"source scripts/environment; floors {sys.executable}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    stated = [
        *project["dependencies"],
        *(each for name in extras if name not in ("vllm", "serve", "all") for each in extras[name]),
    ]
    oldest = [Requirement(line) for line in result.stdout.splitlines()]
    assert {(each.name, str(each.specifier), str(each.marker)) for each in oldest} == {
        (each.name, str(each.specifier).replace(">=", "=="), str(each.marker)) for each in map(Requirement, stated)
    }
