"""A test that hangs fails by name, and those after it run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HUNG = """
import threading

def test_in_a_loop():
    while True:
        pass

def test_at_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def test_after_them():
    pass
"""


def test_the_suite_has_a_timeout(pytestconfig: pytest.Config) -> None:
    assert 60 <= float(pytestconfig.getini("timeout")) <= 1800
    assert float(pytestconfig.getini("faulthandler_timeout")) > 1800
    assert pytestconfig.getini("faulthandler_exit_on_timeout")


def test_a_test_that_hangs_fails(tmp_path: Path) -> None:
    file = tmp_path / "test_hung.py"
    file.write_text(HUNG, "utf-8")
    options = ["-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, "-o", "timeout=2", "-p", "no:cacheprovider", file]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *map(str, options)],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "2 failed, 1 passed" in ran.stdout
    for name in ("test_in_a_loop", "test_at_a_lock"):
        assert f"::{name} - Failed: Timeout" in ran.stdout
