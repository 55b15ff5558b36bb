"""Test mutants in forks of one process that has collected the tests: mutant_worker.py PLAN SECONDS, called by scripts/mutants.

Importing the engines and collecting ten thousand tests takes half a minute; a fork takes none of it. In the fork, the function
that a mutant changes gets the code of the changed file. That has no effect on code that ran before the fork: classes, defaults,
and what functions did while modules were imported. Such mutants are left to the caller, who changes the checkout itself and
passes no text.
"""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

Change = list[tuple[FunctionType, CodeType]]
SLOW = 90  # seconds of processor time in one test, after which it is taken to loop for ever


class Forks:
    """A plugin of pytest that tests mutants instead of running the collected tests."""

    def __init__(self, plan: dict[str, Any], seconds: int) -> None:
        self.plan, self.seconds, self.called = plan, seconds, set[CodeType]()

    def watch(self, frame: Any, event: str, _: object) -> None:
        """Remember the code that runs before the fork."""
        if event == "call" and "/logitkit" in frame.f_code.co_filename:
            self.called.add(frame.f_code)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Test every mutant that has no result yet."""
        sys.setprofile(None)
        results = Path(self.plan["results"])
        lines = results.read_text("utf-8").splitlines() if results.exists() else []
        done = {json.loads(line)["id"] for line in lines}
        for one in self.plan["todo"]:
            number, file, mutant = one["id"], one["file"], one["mutant"]
            change = self.change(file, one["text"], mutant["function"]) if file else []
            if number in done or change is None:
                continue
            items = ordered(session.items, one["tests"], mutant)
            result, test = "missing", ""
            if one["text"] is None:
                failed = first_failure(items, self.seconds)
                result, test = ("not caught", "") if failed is None else ("caught", failed.nodeid)
            elif file:
                result, test = self.tested(items, change)
            with results.open("a", encoding="utf-8") as output:
                output.write(json.dumps({"id": number, "result": result, **mutant, "test": test}) + "\n")
            print(
                f"{number:4}  {result:10}  {mutant['file']}  {mutant['function']}  {mutant['mutation']}  {test[:80]!r}",
                flush=True,
            )
        return True

    def change(self, file: str, text: str | None, name: str) -> Change | None:
        """Return the functions that a mutant changes with their new code, or None if changing them now has no effect."""
        if text is None:  # the checkout is changed
            return []
        if file.startswith("adapters/"):  # vLLM has an environment of its own, and MLX does not work in a fork
            return None
        path = str(Path.cwd() / file)
        parts = name.split(".")
        new = {code.co_qualname: code for code in codes(compile(text, path, "exec", dont_inherit=True))}
        live = [item for item in gc.get_objects() if type(item) is FunctionType and item.__code__.co_filename == path]
        for end in range(1, len(parts) + 1):
            qualname = ".".join(parts[:end])
            found = [item for item in live if item.__code__.co_qualname == qualname]
            if found and qualname in new:
                code = new[qualname]
                fits = all(item.__code__.co_freevars == code.co_freevars for item in found)
                return (
                    None
                    if not fits or any(item.__code__ in self.called for item in found)
                    else [(item, code) for item in found]
                )
        return None

    def tested(self, items: list[pytest.Item], change: Change) -> tuple[str, str]:
        """Run tests in a fork that has the changed code, until one fails that passes without it: the result and that test."""
        while True:
            failed, result = forked(items, change, self.seconds)
            if failed is None:
                return result, ""
            if forked([failed], [], self.seconds)[0] is None:
                return result, failed.nodeid
            items = [item for item in items if item is not failed]


def ordered(items: list[pytest.Item], tests: list[str], mutant: dict[str, str]) -> list[pytest.Item]:
    """Return the tests for a mutant, those first whose files name the function, its class or its file most often."""
    words = {
        *mutant["function"].split("."),
        Path(mutant["file"]).stem,
        Path(mutant["file"]).stem.title().replace("_", ""),
    }
    word = re.compile(rf"\b({'|'.join(re.escape(word) for word in words - {'__init__', '__post_init__', ''})})\b")
    places: dict[Path, tuple[int, int]] = {}
    for item in items:
        if item.path not in places:
            found = [n for n, test in enumerate(tests) if item.path.is_relative_to(Path.cwd() / test)]
            places[item.path] = (-len(word.findall(item.path.read_text("utf-8"))), min(found, default=-1))
    return sorted((item for item in items if places[item.path][1] >= 0), key=lambda item: places[item.path])


def forked(items: list[pytest.Item], change: Change, seconds: int) -> tuple[pytest.Item | None, str]:
    """Run tests in a fork with changed code: the first test that fails or does not end, and what that says of the mutant."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        for function, code in change:
            function.__code__ = code
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        os._exit(first_failure(items, seconds, writing) is not None)
    os.close(writing)
    os.set_blocking(reading, False)
    limit, ended, status, started = time.monotonic() + 6 * seconds + 2 * SLOW, 0, 0, 0
    with os.fdopen(reading, "rb") as pipe:
        while not ended and time.monotonic() < limit:
            time.sleep(0.05)
            ended, status = os.waitpid(child, os.WNOHANG)
            started += len(pipe.read() or b"")
    if not ended:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        failed = os.WEXITSTATUS(status) == 1
        return (items[started - 1], "caught") if failed else (None, "not caught")
    return items[started - 1], "timeout" if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) else "caught"


def first_failure(items: list[pytest.Item], seconds: int, progress: int | None = None) -> pytest.Item | None:
    """Run tests for a time, until one fails; before each, write a byte to `progress`."""
    failures: list[str] = []

    class Reports:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            failures.extend([report.nodeid] * report.failed)

    items[0].config.pluginmanager.register(Reports())
    start = time.process_time()
    for item, following in zip(items, [*items[1:], None], strict=True):
        now = time.process_time()
        if now - start > seconds:
            break
        resource.setrlimit(resource.RLIMIT_CPU, (int(now) + SLOW, resource.RLIM_INFINITY))
        if progress is not None:
            os.write(progress, b".")
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failures:
            return item
    return None


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and all inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def main() -> None:
    """Collect the tests of a plan, and test its mutants."""
    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    wanted = [one for one in plan["todo"] if one["text"] is None or not one["file"].startswith("adapters/")]
    tests = sorted({test for one in wanted for test in one["tests"] if Path(test).exists()})
    forks = Forks(plan, int(sys.argv[2]))
    sys.setprofile(forks.watch)
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests], plugins=[forks]))


if __name__ == "__main__":
    main()
