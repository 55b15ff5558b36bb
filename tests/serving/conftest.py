"""The servers of the tests, one per engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serving.servers import Server, served

# All tests of an engine run in one process, so that its server starts once.
ENGINES = [
    pytest.param(name, marks=pytest.mark.xdist_group(f"serve {name}"), id=name)
    for name in ("mlx-lm", "llama-cpp", "transformers")
]


@pytest.fixture(scope="session", params=ENGINES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(request.param, tmp_path_factory.mktemp("served")) as running:
        yield running
