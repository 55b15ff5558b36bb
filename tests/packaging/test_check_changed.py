"""`scripts/check-changed` finds the files of a change, and runs the tests that are nearest to them first."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def script() -> Any:
    before = [*sys.path]  # which the script changes
    yield runpy.run_path(str(ROOT / "scripts" / "changed_tests.py"))
    sys.path[:] = before


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("processors/logitkit/sampling/top_a.py", "logitkit.sampling.top_a"),
        ("processors/logitkit/sampling/__init__.py", "logitkit.sampling"),
        ("adapters/logitkit_adapters/hooks/door.py", "logitkit_adapters.hooks.door"),
        ("tests/processors/test_sampling.py", "tests.processors.test_sampling"),
        ("docs/index.md", None),
        ("scripts/changed_tests.py", None),
    ],
)
def test_the_module_of_a_file(script: Any, path: str, module: str | None) -> None:
    assert script["module_of"](path) == module


@pytest.mark.parametrize(
    ("module", "nearest"),
    [
        # By an import, and by `lk.TextStream`.
        ("logitkit_adapters.sessions.text_before_stop", "tests/sessions/test_text_before_stop.py"),
        ("logitkit.stopping.text_stream", "tests/test_text_stream.py"),
        ("tests.processors.test_sampling", "tests/processors/test_sampling.py"),
    ],
)
def test_the_nearest_tests_come_first(script: Any, module: str, nearest: str) -> None:
    found = script["by_distance"]([module], script["importers"]())
    assert nearest in found[:3]
    assert len(found) == len({*found})
    assert all(Path(ROOT, file).is_file() for file in found)


def test_a_change_of_every_processor_reaches_most_tests(script: Any) -> None:
    found = script["by_distance"](["logitkit.protocol.processor"], script["importers"]())
    there = [*(ROOT / "tests").rglob("test_*.py")]
    assert len(found) > 0.7 * len([one for one in there if not {"adapters_vllm", "pipeline", "browser"} & {*one.parts}])
