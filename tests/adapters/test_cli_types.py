"""`logitkit check-schema package.module:Name`: Python types in place of files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from logitkit_adapters.cli import main

MODELS = """
from dataclasses import dataclass
from typing import TypedDict
from pydantic import BaseModel

class Invoice(BaseModel):
    total: int

    class Line(BaseModel):
        price: int

@dataclass
class Point:
    total: int

class Row(TypedDict):
    total: int

SCHEMA = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run commands in a folder with modules."""
    (tmp_path / "shop_of_test").mkdir()
    (tmp_path / "shop_of_test" / "models.py").write_text(MODELS, "utf-8")
    (tmp_path / "shop_of_test" / "broken.py").write_text("raise RuntimeError('no database')", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.mark.parametrize("name", ["Invoice", "Point", "Row", "SCHEMA"])
def test_a_type_is_checked_like_its_schema(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for text, status in (('{"total":1}', 0), ('{"total":"1"}', 1)):
        assert main(["check-schema", f"shop_of_test.models:{name}", "--text", text, "--json"]) == status
        assert json.loads(capsys.readouterr().out)["legal"] is (status == 0)


def test_a_type_inside_of_a_class(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-schema", "shop_of_test.models:Invoice.Line", "--text", '{"price":1}', "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["legal"]


def test_explain_takes_a_type_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--schema=shop_of_test.models:Row", "--text", '{"total":"1"}']) == 1
    assert 'type: "integer"' in capsys.readouterr().out


def test_a_file_of_that_name_comes_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "shop_of_test.models:Row").write_text('{"type": "null"}', "utf-8")
    assert main(["check-schema", "shop_of_test.models:Row", "--text", "null", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["legal"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("shop_of_test.nothing:Row", "the module 'shop_of_test.nothing' cannot be imported: ModuleNotFoundError"),
        ("shop_of_test.broken:Row", "the module 'shop_of_test.broken' cannot be imported: RuntimeError: no database"),
        ("shop_of_test.models:Nothing", "'shop_of_test.models' has no 'Nothing'"),
        ("shop_of_test.models:Invoice.Nothing", "'shop_of_test.models' has no 'Invoice.Nothing'"),
        ("shop_of_test.models", "shop_of_test.models cannot be read"),
        ("shop_of_test/models.py:Row", "shop_of_test/models.py:Row cannot be read"),
    ],
)
def test_what_cannot_be_imported_is_named(given: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-schema", given]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
