"""Write down how the tests end that claim a cell of the table.

`python -m pytest -p tests.conformance.report --conformance-report=FILE TESTS`
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


class _Report:
    """The claims of tests, from all processes that ran them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._claims: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            outcome = "pass" if report.passed else "fail"
            claims = [value for name, value in report.user_properties if name == "conformance"]
            self._claims += [{**claim, "outcome": outcome} for claim in claims if isinstance(claim, dict)]

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps(self._claims))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--conformance-report", type=Path, help="the file to write")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--conformance-report")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Report(path.resolve()))
