"""`--cases-of-each N`, with which `scripts/test` and CI take less time: every test runs, with at most N cases."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Importing the fixtures of all tests would take two seconds each time.
FILE = """
import pytest

@pytest.mark.parametrize("number", range(20))
def test_many(number): ...

@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_three(name): ...

def test_one(): ...
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tests")
    shutil.copy(ROOT / "conftest.py", made)
    (made / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (made / "test_some.py").write_text(FILE, encoding="utf-8")
    return made


def collected(folder: Path, *options: str) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        *options,
        "test_some.py",
    ]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return [line for line in done.stdout.splitlines() if line.startswith("test_some.py::")]


def test_each_test_keeps_some_of_its_cases_and_always_the_same(folder: Path) -> None:
    every, some = collected(folder), collected(folder, "--cases-of-each", "2")
    cases, kept = (Counter(name.partition("[")[0] for name in names) for names in (every, some))
    assert max(cases.values()) == 20
    assert kept == {test: min(2, count) for test, count in cases.items()}
    assert set(some) < set(every)
    assert collected(folder, "--cases-of-each", "2") == some


def test_other_texts_choose_other_cases(folder: Path) -> None:
    """So CI, which gives the commit, runs all cases in the course of time."""
    chosen = [set(collected(folder, "--cases-of-each", "2", "--cases-by", text)) for text in ("", "a", "b", "b")]
    assert chosen[0] == set(collected(folder, "--cases-of-each", "2"))
    assert len({frozenset(names) for names in chosen}) == 3
    assert chosen[2] == chosen[3]
