"""What the front end has compiled is where the workers of its engine look, and gone when they are."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import logitkit as lk
from logitkit.automata.shared import shared_by

TOKENS = [b"a", b"b", b"ab", b"cd", None]


@pytest.fixture
def vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[lk.Vocabulary]:
    from logitkit_adapters import vllm_compiled

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(vllm_compiled, "_folders", {})
    monkeypatch.setattr(atexit, "register", lambda function: None)
    made = lk.Vocabulary(TOKENS, eos_ids=[4])
    yield made
    shared_by(made).files = None


def share(vocabulary: lk.Vocabulary, engine: str) -> Any:
    from logitkit_adapters.vllm_compiled import share_compiled

    share_compiled(vocabulary, SimpleNamespace(instance_id=engine))
    return shared_by(vocabulary).files


def test_all_processes_of_an_engine_know_the_folder(vocabulary: lk.Vocabulary, tmp_path: Path) -> None:
    files = share(vocabulary, "engine")
    assert share(vocabulary, "engine") is files
    assert files.folder.parent == tmp_path
    assert share(vocabulary, "another/../engine").folder not in (files.folder, tmp_path)
    again = share(vocabulary, "engine")
    assert again.folder == files.folder
    lk.Regex("(ab)*", vocabulary)
    assert len([*again.folder.iterdir()]) == 1


def test_the_folder_goes_with_the_process_that_knew_it(
    vocabulary: lk.Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logitkit_adapters import vllm_compiled

    folder = share(vocabulary, "engine").folder
    lk.Regex("(ab)*", vocabulary)
    own = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    vllm_compiled._remove()
    assert folder.exists()
    monkeypatch.setattr(os, "getpid", lambda: own)
    vllm_compiled._remove()
    assert not folder.exists()


def test_an_engine_without_a_name_shares_nothing(vocabulary: lk.Vocabulary) -> None:
    assert share(vocabulary, "") is None
