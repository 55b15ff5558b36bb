"""For all benchmarks: one thread, real vocabularies, and the tables at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from benchmarks.tables import Tables
from logitkit.vocabulary import Vocabulary
from tests import vocabularies

_TABLES = pytest.StashKey[Tables]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TABLES] = Tables()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for table in config.stash[_TABLES].by_title.values():
        terminalreporter.write_line("")
        for line in table.lines():
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def tables(request: pytest.FixtureRequest) -> Tables:
    return request.config.stash[_TABLES]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", params=["tekken", "sentencepiece_32k"])
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    """Tekken (131,072 ids) and SentencePiece (32,768 ids)."""
    found: Vocabulary = getattr(vocabularies, request.param)()
    assert found.trie.depth > 1
    return found


@pytest.fixture(scope="session")
def vocabulary_name(vocabulary: Vocabulary) -> str:
    return "Tekken 131k" if vocabulary.size > 100_000 else "SentencePiece 32k"
