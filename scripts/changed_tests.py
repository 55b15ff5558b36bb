"""Run the checks of the files that a change touches, and the tests nearest to them; see `scripts/check-changed`.

A test is near a module if few imports lead from one to the other. A test that writes `lk.Regex` counts as one that imports the
module of `Regex`. The nearest tests run first, until the time is over; the others are counted, and `scripts/test` runs them all.
vLLM's tests are left to `scripts/test --engine vllm`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("processors", "adapters", ".")]

from logitkit.public_names import MODULES  # noqa: E402 - after the path above

PLACES = {"processors/": "", "adapters/": "", "tests/": "tests/"}
# These tests need an environment of their own, or a browser.
ELSEWHERE = ("tests.adapters_vllm", "tests.pipeline", "tests.browser")
SECONDS = 100


def changed_files(commit: str) -> list[str]:
    """Return the files that differ from a commit and exist, new ones included."""
    differing = _output("git", "diff", "--name-only", "--diff-filter=d", commit)
    new = _output("git", "ls-files", "--others", "--exclude-standard")
    return sorted({*differing, *new})


def module_of(path: str) -> str | None:
    """Return the module in a file of the project, or None."""
    for place, prefix in PLACES.items():
        if path.startswith(place) and path.endswith(".py"):
            return (prefix + path.removeprefix(place).removesuffix(".py").removesuffix("/__init__")).replace("/", ".")
    return None


def importers() -> dict[str, set[str]]:
    """Return the modules that import each module, or use its public name."""
    graph = grimp.build_graph("logitkit", "logitkit_adapters", exclude_type_checking_imports=True, cache_dir=None)
    found = {module: {*graph.find_modules_that_directly_import(module)} for module in graph.modules}
    # Folders of tests need no `__init__.py`, so they are not packages to grimp.
    for path in (ROOT / "tests").rglob("*.py"):
        module = module_of(str(path.relative_to(ROOT)))
        assert module is not None
        for name in _names_used(ast.parse(path.read_text("utf-8"))):
            found.setdefault(name, set()).add(module)
    return found


def _names_used(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a program imports, and those of the public names that it uses; some are names of no module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "lk":
            yield f"logitkit.{MODULES.get(node.attr, node.attr)}"


def by_distance(modules: Iterable[str], found: dict[str, set[str]]) -> list[str]:
    """Return the test files that lead to some modules by imports, the nearest ones first."""
    near = list(dict.fromkeys(modules))
    for module in near:
        name = module.rpartition(".")[2]
        near += sorted(found.get(module, set()) - {*near}, key=lambda other: (not other.endswith(name), other))
    files = [
        Path(module.replace(".", "/") + ".py")
        for module in near
        if module.startswith("tests.") and not module.startswith(ELSEWHERE)
    ]
    return [str(file) for file in files if file.name.startswith("test_") and (ROOT / file).is_file()]


class Deadline:
    """Stops pytest once the time is over."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.left, self._run = 0, 0

    def pytest_runtest_logfinish(self) -> None:
        """Count a test that has run."""
        self._run += 1

    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Stop after a test once the time is over."""
        if nextitem is not None and time.monotonic() > self._end:
            self.left = len(item.session.items) - self._run - 1
            item.session.shouldstop = "the time is over"


def _output(*command: str) -> list[str]:
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)  # noqa: S603 - git
    return done.stdout.splitlines()


def main(commit: str = "HEAD") -> int:
    """Check the difference from a commit, and return the status of the program."""
    files = changed_files(commit)
    if not files:
        print(f"Nothing differs from {commit}.")
        return 0
    sources = [file for file in files if file.endswith(".py")] or ["scripts/changed_tests.py"]
    prose = [file for file in files if file.endswith((".py", ".md"))]
    checks = [["ruff", "check", *sources], ["ruff", "format", "--check", *sources], ["mypy"]]
    commands = [[sys.executable, "-m", *check] for check in checks]
    commands += [[sys.executable, "scripts/lint-prose", *prose]] if prose else []
    running = [(command, subprocess.Popen(command, cwd=ROOT)) for command in commands]  # noqa: S603 - linters
    tests = by_distance([module for file in files if (module := module_of(file))], importers())
    deadline, status = Deadline(SECONDS), pytest.ExitCode.OK
    if tests:
        print(f"{len(tests)} test files lead to the change; the nearest are {', '.join(tests[:5])}", flush=True)
        status = pytest.ExitCode(pytest.main(["-n", "0", "-q", "--no-header", *tests], plugins=[deadline]))
    failed = [command for command, process in running if process.wait()]
    for command in failed:
        print("failed:", " ".join(command[1:4]))
    if deadline.left:
        print(f"The time is over: {deadline.left} tests that are farther away did not run; scripts/test runs all.")
    passed = status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    return int(bool(failed) or not (passed or (deadline.left and status == pytest.ExitCode.INTERRUPTED)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
