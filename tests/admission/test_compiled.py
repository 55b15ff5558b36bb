"""Automata that one process of a server compiled are found by its others, and deleted when the server ends."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import logitkit as lk
from logitkit.runtime.shared import shared_by
from logitkit_adapters.admission.clients import Client
from logitkit_adapters.admission.compiled import KeptFiles

TOKENS = [b"a", b"b", b"ab", b"cd", None]


@pytest.fixture
def vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[lk.Vocabulary]:
    from logitkit_adapters.admission import compiled

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(compiled, "_folders", {})
    monkeypatch.setattr(atexit, "register", lambda function: None)
    made = lk.Vocabulary(TOKENS, eos_ids=[4])
    yield made
    shared_by(made).files = None


def share(vocabulary: lk.Vocabulary, name: str) -> Any:
    from logitkit_adapters.admission.compiled import files_of

    shared_by(vocabulary).files = found = files_of(vocabulary, name)
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
    from logitkit_adapters.admission import compiled

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
    from logitkit_adapters.admission.compiled import FILE_BYTES

    # A record that is repeated up to 200 times takes 3 MB.
    assert FILE_BYTES >= 64 * 3 * 10**6
    assert share(vocabulary, "engine").limit == FILE_BYTES


ANNA, BEN = Client("1.1.1.1"), Client("2.2.2.2")


def written(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).write_bytes(bytes(100))
    return [folder / name for name in names]


def names(folder: Path) -> str:
    return "".join(sorted(file.name for file in folder.iterdir()))


def test_files_that_were_used_last_are_kept(tmp_path: Path) -> None:
    files = KeptFiles(tmp_path, limit=300)
    a, b, c, d = written(tmp_path, *"abcd")
    for file in (a, b, c, a):
        assert files.use([file], ANNA)
    assert names(tmp_path) == "abcd"
    assert files.use([d], ANNA)
    assert names(tmp_path) == "acd"
    # One that has gone is written again.
    assert not files.use([a, b], ANNA)
    written(tmp_path, "b")
    assert files.use([a, b], ANNA)
    assert names(tmp_path) == "abd"


def test_the_files_of_others_stay_if_a_client_writes_many(tmp_path: Path) -> None:
    files = KeptFiles(tmp_path, limit=1000)
    assert files.use(written(tmp_path, "a", "b"), ANNA)
    for number in range(50):
        key = str(number).encode()
        assert files.use(written(tmp_path, f"x{number}"), Client(BEN.address, key))
    assert files.use([tmp_path / "a", tmp_path / "b"], ANNA)
    assert len([*tmp_path.iterdir()]) == 10
    assert (tmp_path / "x49").exists()


def test_only_files_of_this_engine_count(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours", tmp_path / "other"
    for folder in (ours, other):
        folder.mkdir()
    assert KeptFiles(ours).use([], ANNA)
    assert not KeptFiles(ours).use(written(other, "a"), ANNA)
    assert not KeptFiles(None).use(written(other, "a"), ANNA)


def test_an_engine_without_a_name_shares_nothing(vocabulary: lk.Vocabulary) -> None:
    assert share(vocabulary, "") is None
