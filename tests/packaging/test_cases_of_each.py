"""`--cases-of-each N`, with which `scripts/test` and CI take less time: every test runs, with at most N cases."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = "tests/grammars/test_gbnf_errors.py"


def collected(*options: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options, FILE]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [line for line in done.stdout.splitlines() if line.startswith(FILE)]


def test_each_test_keeps_some_of_its_cases_and_always_the_same() -> None:
    every, some = collected(), collected("--cases-of-each", "2")
    cases, kept = (Counter(name.partition("[")[0] for name in names) for names in (every, some))
    assert max(cases.values()) > 2
    assert kept == {test: min(2, count) for test, count in cases.items()}
    assert set(some) < set(every)
    assert collected("--cases-of-each", "2") == some


def test_other_texts_choose_other_cases() -> None:
    """So CI, which gives the commit, runs all cases in the course of time."""
    chosen = [set(collected("--cases-of-each", "2", "--cases-by", text)) for text in ("", "a", "b", "b")]
    assert chosen[0] == set(collected("--cases-of-each", "2"))
    assert len({frozenset(names) for names in chosen}) == 3
    assert chosen[2] == chosen[3]
