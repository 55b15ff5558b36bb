"""Schemas of JSONSchemaBench are read from a folder or a clone, in an order that depends on the seed alone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks.jsonschemabench import DATA, schemas, snapshot
from benchmarks.report_jsonschemabench import reason_of


def corpus(folder: Path) -> Path:
    (folder / DATA).mkdir(parents=True)
    for number in range(5):
        tests = [{"valid": True, "data": number}, {"valid": False, "data": "no"}, {"valid": True, "data": 2**70}]
        content = {"schema": {"minimum": number}, "tests": tests[: number % 4]}
        (folder / DATA / f"case_{number}.json").write_text(json.dumps(content))
    return folder


def test_a_folder_and_a_clone_without_a_work_tree_give_the_same(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "folder")
    found = schemas(folder)
    assert sorted(case.name for case in found) == [f"case_{number}" for number in range(5)]
    assert {case.name: (case.schema, case.valid, case.invalid) for case in found}["case_3"] == (
        {"minimum": 3},
        (3, 2**70),
        ("no",),
    )
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(folder)]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "All"]):
        subprocess.run([*git, *command], check=True)
    bare = tmp_path / "bare"
    subprocess.run(["git", "clone", "-q", "--bare", str(folder), str(bare)], check=True)
    assert schemas(bare) == found
    assert snapshot(bare) == snapshot(folder) != "folder"
    assert schemas(bare, 2) == found[:2]
    assert schemas(bare, seed=7) != found
    assert [case.schema for case in schemas(corpus(tmp_path / "again"))] == [case.schema for case in found]


def test_a_folder_without_schemas_is_refused(tmp_path: Path) -> None:
    (tmp_path / DATA).mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="give a clone of jsonschemabench"):
        schemas(tmp_path)


def test_reasons_are_the_same_for_all_schemas() -> None:
    assert reason_of("'minItems' at #/a/b is 12, more than \"x\" 3.5") == reason_of(
        "'maxItems' at #/c is 7, more than 'y' 8"
    )
