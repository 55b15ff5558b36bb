"""`scripts/mutants` changes what it names, and nothing else."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path
from typing import Any

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "mutants"))
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
