"""For the tests with vLLM, which run in a separate environment: `scripts/test --engine vllm`. There and in CI, none is skipped.

Skipping is for `pytest tests` in the environment of all other tests, which lacks vLLM.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent

# The first changes the Python that imports it, so only separate processes may import it. The others are scripts that import vLLM,
# whose warnings are errors while tests are collected.
collect_ignore = ["triton_on_cpu", "admitting.py", "compiling.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent != HERE:
            continue
        # vLLM and its dependencies warn of many things that are not errors of logitkit.
        item.add_marker(pytest.mark.filterwarnings("default"))
        # CI must have vLLM: without it, these tests fail.
        if find_spec("vllm") is None and not os.environ.get("CI"):
            item.add_marker(pytest.mark.skip(reason="vLLM is not installed here: scripts/test --engine vllm"))


@pytest.fixture(scope="session", autouse=True)
def small_engine() -> Iterator[None]:
    """Limit engines to one gigabyte of cache and one thread. With a model this small, more threads are several times slower."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        patch.setenv("VLLM_LOGGING_LEVEL", "WARNING")
        patch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="session")
def llm() -> Iterator[Any]:
    """An engine that all tests of V1 share."""
    from tests.adapters_vllm import engine

    # Named, and found by its entry point too: it must work once all the same.
    started = engine.start(logits_processors=[engine.PLUGIN], logprobs_mode="processed_logprobs", max_logprobs=40)
    yield started
    started.llm_engine.engine_core.shutdown()


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of a server that all tests of servers share."""
    from tests.adapters_vllm.server import served

    with served(tmp_path_factory.mktemp("server") / "log") as made:
        yield made


@pytest.fixture(scope="session")
def switched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of another server, which reads the fields of OpenAI's API, and in whose environment a package is installed."""
    from tests.adapters_vllm import package
    from tests.adapters_vllm.server import served
    from tests.adapters_vllm.test_registered import environment

    folder = package.install(tmp_path_factory.mktemp("package") / "installed", every_nth="EveryNth")
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:  # only while it starts: other servers must not have these variables
            patch.setenv("PYTHONPATH", environment(folder, {})["PYTHONPATH"])
            patch.setenv("LOGITKIT_VLLM_RESPONSE_FORMAT", "1")
            made = stack.enter_context(served(tmp_path_factory.mktemp("switched") / "log"))
        yield made
