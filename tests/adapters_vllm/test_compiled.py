"""Automata that the front end compiled are found by the workers of its engine, and deleted when the engine ends."""

from __future__ import annotations

import atexit
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import logitkit as lk
from logitkit.runtime import shared_by
from tests.adapters_vllm import engine

TOKENS = [b"a", b"b", b"ab", b"cd", None]


@pytest.fixture
def vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[lk.Vocabulary]:
    from logitkit_adapters.vllm import compiled

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(compiled, "_folders", {})
    monkeypatch.setattr(atexit, "register", lambda function: None)
    made = lk.Vocabulary(TOKENS, eos_ids=[4])
    yield made
    shared_by(made).files = None


def share(vocabulary: lk.Vocabulary, name: str) -> Any:
    from logitkit_adapters.vllm.compiled import files_of

    shared_by(vocabulary).files = found = files_of(vocabulary, SimpleNamespace(instance_id=name))
    return found


def test_all_processes_of_an_engine_know_the_folder(vocabulary: lk.Vocabulary, tmp_path: Path) -> None:
    files = share(vocabulary, "engine")
    assert share(vocabulary, "engine").folder == files.folder
    assert files.folder.parent == tmp_path
    assert share(vocabulary, "another/../engine").folder not in (files.folder, tmp_path)
    again = share(vocabulary, "engine")
    assert again.folder == files.folder
    lk.Regex("(ab)*", vocabulary)
    assert len([*again.folder.iterdir()]) == 1


def test_the_folder_goes_with_the_process_that_knew_it(
    vocabulary: lk.Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logitkit_adapters.vllm import compiled

    folder = share(vocabulary, "engine").folder
    lk.Regex("(ab)*", vocabulary)
    own = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    compiled._remove()
    assert folder.exists()
    monkeypatch.setattr(os, "getpid", lambda: own)
    compiled._remove()
    assert not folder.exists()


def test_the_automata_of_64_requests_have_room(vocabulary: lk.Vocabulary) -> None:
    from logitkit_adapters.vllm.compile_process import NotedFiles

    found = share(vocabulary, "engine")
    # A record that is repeated up to 200 times takes 3 MB.
    assert found.limit >= 64 * 3 * 10**6
    assert found.limit == NotedFiles(found.folder, vocabulary.content_key).limit


def test_an_engine_without_a_name_shares_nothing(vocabulary: lk.Vocabulary) -> None:
    assert share(vocabulary, "") is None


def test_the_worker_of_an_engine_finds_what_the_front_end_compiled(tmp_path: Path) -> None:
    patterns = ["[a-z]{3}", r"[0-9](,[0-9]){2}", "x|yz"]
    processes = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    found = engine.run_script("tests.adapters_vllm.compiling", {"patterns": patterns}, tmp_path / "out.json", processes)
    assert found["here"] == ["compiles"] * 3
    assert found["elsewhere"] == ["finds"] * 3
    for pattern, text in zip(patterns, found["texts"], strict=True):
        assert re.fullmatch(pattern, text)
