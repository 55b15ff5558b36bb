"""`scripts/mutants` changes what it names and nothing else, and tells mutants that tests catch from others."""

from __future__ import annotations

import ast
import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parents[2] / "scripts"
SCRIPT = runpy.run_path(str(SCRIPTS / "mutant_operators.py"))
EXAMPLE = '''
"""A module."""

class Counter:
    def add(self, n: int) -> int:
        """Add."""
        if not n and self.open:
            self.n = n + 1
        else:
            self.n = True
        return n < 2
'''


def mutated() -> dict[str, str]:
    """Return the changed lines of every mutant of the example, by its mutation and statement."""
    before = ast.unparse(ast.parse(EXAMPLE)).split("\n")
    found = {}
    for number in range(len(list(SCRIPT["mutants"]("a.py", ast.parse(EXAMPLE))))):
        tree: Any = ast.parse(EXAMPLE)
        mutant, old, new = list(SCRIPT["mutants"]("a.py", tree))[number]
        after = ast.unparse(ast.fix_missing_locations(SCRIPT["Replacement"](old, new).visit(tree))).split("\n")
        assert mutant["function"] == "Counter.add"
        lines = [line.strip() for line in after if line not in before]
        found[f"{mutant['mutation']}: {mutant['statement']}"] = "; ".join(lines)
    return found


def test_every_kind_changes_one_place() -> None:
    assert mutated() == {
        "swapped branches 1: if not n and self.open:": "",
        "and or 1: if not n and self.open:": "if not n or self.open:",
        "removed not 1: if not n and self.open:": "if n and self.open:",
        "deleted statement 1: self.n = n + 1": "pass",
        "constant + 1 1: self.n = n + 1": "self.n = n + 2",
        "constant - 1 1: self.n = n + 1": "self.n = n + 0",
        "deleted statement 1: self.n = True": "pass",
        "boolean 1: self.n = True": "self.n = False",
        "comparison 1: return n < 2": "return n <= 2",
        "constant + 1 1: return n < 2": "return n < 3",
        "constant - 1 1: return n < 2": "return n < 1",
    }


SOURCE = """
LIMIT = 3
UNUSED = 5


def small(n: int) -> bool:
    return n < LIMIT


def shown(n: int) -> str:
    n += 1
    return f"{n:>2}"


def halves(n: int) -> int:
    steps = 0
    while n > 1:
        n -= n // 2
        steps += 1
    return steps
"""
TESTS = """
from logitkit.vocabulary.numbers import halves, shown, small

def test_small() -> None:
    assert small(2) and not small(3)

def test_shown() -> None:
    assert shown(7)

def test_halves() -> None:
    assert halves(8) == 3

def test_that_always_fails() -> None:
    assert not shown(7)
"""


def test_mutants_are_tested_in_forks_and_in_copies(tmp_path: Path) -> None:
    package = tmp_path / "checkout" / "processors" / "logitkit" / "vocabulary"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "numbers.py").write_text(SOURCE)
    tests = tmp_path / "checkout" / "tests" / "core"
    tests.mkdir(parents=True)
    (tests / "test_numbers.py").write_text(TESTS)
    file = "processors/logitkit/vocabulary/numbers.py"
    named = [
        ("small", "return n < LIMIT", "comparison 1", "caught"),
        ("shown", "return f'{n:>2}'", "deleted statement 1", "missing"),  # what a function returns is never deleted
        ("halves", "steps = 0", "deleted statement 1", "caught"),
        ("", "LIMIT = 3", "constant + 1 1", "caught"),
        ("shown", "n += 1", "constant + 1 1", "not caught"),
        ("", "UNUSED = 5", "constant + 1 1", "unclear"),
    ]
    mutants = [{"file": file, "function": a, "statement": b, "mutation": c} for a, b, c, _ in named]
    wanted, results = tmp_path / "list", tmp_path / "results"
    wanted.write_text("".join(json.dumps(mutant) + "\n" for mutant in mutants))
    command = [
        sys.executable,
        str(SCRIPTS / "mutants"),
        "run",
        str(wanted),
        str(results),
        "--root",
        str(tmp_path / "checkout"),
    ]
    subprocess.run([*command, "--seconds", "5"], check=True, capture_output=True, timeout=120)
    found = sorted((line["id"], line["result"]) for line in map(json.loads, results.read_text().splitlines()))
    assert found == [(n, result) for n, (*_, result) in enumerate(named)]
