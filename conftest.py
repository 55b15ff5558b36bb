"""For all tests, doctests of the sources included: their cases, registered kinds, and xdist, which keeps cases together."""

from __future__ import annotations

import gc
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadGroupScheduling

pytest_plugins = ["tests.missing_engines"]

# Files whose tests share a result that takes long to compute. The mark xdist_group does nothing with pytest 9.2.
ONE_WORKER = (
    "tests/adapters/test_cli.py",
    "tests/automata/test_limits.py",
    "tests/docs/test_site.py",
    "tests/grammars/test_grammar_cost.py",
    "tests/json_schema/test_cost.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that `scripts/test` passes."""
    parser.addoption(
        "--cases-of-each",
        type=int,
        metavar="N",
        help="run at most N of the parametrized cases of each test; by default all",
    )
    parser.addoption(
        "--cases-by",
        default="",
        metavar="TEXT",
        help="which cases --cases-of-each chooses: the same ones for the same text; CI gives the commit",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say how to run the same cases again."""
    most, text = config.getoption("cases_of_each"), config.getoption("cases_by")
    return None if most is None else f"cases: --cases-of-each {most} --cases-by '{text}'"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect cases if `--cases-of-each` is given. A hash of the name chooses, so a test of all engines keeps different ones."""
    most, text = config.getoption("cases_of_each"), config.getoption("cases_by")
    if most is None:
        return
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    kept = {
        item
        for group in cases.values()
        for item in sorted(group, key=lambda item: zlib.crc32(f"{text}{item.nodeid}".encode()))[:most]
    }
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


@pytest.fixture(autouse=True)
def registered_kinds() -> Iterator[None]:
    """Remove the kinds that a test or an example registers, so that other tests do not see them."""
    before = set(_kinds())
    yield
    for name, kind in [*_kinds().items()]:
        if name not in before and hasattr(kind, "examples"):
            del _kinds()[name]


def _kinds() -> dict[str, object]:
    module = sys.modules.get("logitkit.protocol.kind")
    return {} if module is None else module.KINDS


class _Hidden:
    """How many modules are hidden from the garbage collector."""

    modules = 0


def pytest_runtest_setup() -> None:
    """Hide modules and tests from the garbage collector: at the first test, and whenever many modules have been imported.

    They stay until the end. transformers collects garbage twice in each continuous batch, and several tests do it too. That takes
    half a second if the collector looks through everything that is imported.
    """
    if len(sys.modules) > _Hidden.modules + 100:
        _Hidden.modules = len(sys.modules)
        gc.collect()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)  # the environment of vLLM has no xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadGroupScheduling:
    """Give all cases of a test to one worker, the tests with most cases first, and some files as a whole.

    The cases share their caches. After each one xdist counts its units of work, which is slow for ten thousand units.
    """
    from xdist.scheduler import LoadGroupScheduling

    assert all((config.rootpath / path).is_file() for path in ONE_WORKER)

    class ByFunction(LoadGroupScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return path if path in ONE_WORKER else nodeid.partition("[")[0]

    return ByFunction(config, log)
