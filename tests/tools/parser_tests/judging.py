"""Runs the tests of a project in this process, with parsers that read with our formats, and says what each test found.

`python -m tests.tools.parser_tests.judging SUITE FOLDER FORMATS RESULT` reads the derived formats from one file, and writes the
result to another, both as JSON. Each test runs up to three times: with the text around calls as we read it, without it, and with
a text that is equal to any other, so that a test that fails for this text alone still judges the calls.
"""

from __future__ import annotations

import json
import sys
import unittest
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.tools.parser_tests.parser_formats import from_json
from tests.tools.parser_tests.records import Characters
from tests.tools.parser_tests.suites import prepare, test_files
from tests.tools.parser_tests.watching import TEXTS, InsideOfParser, NoFormat, Watch

# Before the number of a part of a test in its name.
PART = "#"


class Judge:
    """A plugin of pytest that keeps the result of each test.

    Args:
        watch: The readings of the test in progress.
        judged: The results so far, by the name of the test.
    """

    def __init__(self, watch: Watch, judged: dict[str, dict[str, Any]]) -> None:
        self.watch, self.judged, self.parts = watch, judged, 0

    @pytest.fixture(scope="module")
    def default_tokenizer(self) -> Characters:
        """The tokenizer of vLLM's tests."""
        return Characters()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """After the first time, run the tests again that have failed."""
        failed = {name.partition(PART)[0] for name, one in self.judged.items() if one["result"] == "failed"}
        items[:] = [item for item in items if not self.judged or item.nodeid in failed]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        """Run a test, and keep what it read. Each of its parts counts as a test."""
        self.watch.begin()
        parts = 0

        @contextmanager
        def part(*_: Any, **__: Any) -> Iterator[None]:
            nonlocal parts
            self.watch.begin()
            error: BaseException | None = None
            try:
                yield
            except Exception as raised:  # noqa: BLE001 - whatever a test raises
                error = raised
            parts += 1
            self._keep(f"{item.nodeid}{PART}{parts}", error)
            self.watch.begin()

        with patch.object(unittest.TestCase, "subTest", part):
            yield
        self.parts = parts

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Keep what a test found. Failures of unittest are known only here."""
        yield
        if call.when == "call" and (not self.parts or self.watch.readings or self.watch.streams or call.excinfo):
            self._keep(item.nodeid, call.excinfo.value if call.excinfo else None)

    def _keep(self, name: str, error: BaseException | None) -> None:
        for stream in self.watch.streams:
            with suppress(NoFormat):
                stream.note()
        result = "passed" if error is None else "failed"
        if isinstance(error, InsideOfParser | AttributeError | TypeError | NameError | OSError):
            result = "inside"
        if self.watch.missing:
            result = "no format"
        before = self.judged.get(name)
        if before is not None and (result != "passed" or before["result"] == "passed"):
            return
        self.judged[name] = {
            "result": result,
            "texts": self.watch.texts,
            "why": "" if error is None else f"{type(error).__name__}: {error}"[:600],
            "missing": sorted(self.watch.missing),
            "readings": [
                {
                    "parser": one.parser,
                    "text": one.text,
                    "calls": [[call.name, call.arguments] for call in one.turn.calls],
                    "writable": one.writable,
                    "problem": one.turn.problem or one.turn.outside_at,
                    "in pieces": one.in_pieces,
                    "has marker": one.has_marker,
                }
                for one in self.watch.readings
            ],
        }


def main(suite: str, folder: Path, formats: Path, result: Path) -> None:
    """Run the tests of a project, and write what they found."""
    watch = Watch(from_json(formats.read_text("utf-8")))
    judged: dict[str, dict[str, Any]] = {}
    prepare(suite, folder, watch)
    files = [str(file) for file in test_files(suite, folder)]
    for watch.texts in TEXTS:
        given = [
            "-q",
            "--noconftest",
            "--runxfail",
            "--continue-on-collection-errors",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "--no-header",
            "--tb=line",
            "--import-mode=importlib",
        ]
        pytest.main([*given, f"--rootdir={folder}", "-c", "/dev/null", *files], plugins=[Judge(watch, judged)])
        # Each time says more, and a run that is stopped leaves what it found.
        result.write_text(json.dumps(judged, default=repr), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
