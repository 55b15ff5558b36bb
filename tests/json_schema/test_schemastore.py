"""Schemas of SchemaStore and its documents are read from a folder; `benchmarks.bench_schemastore` compiles and judges them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.bench_schemastore import run
from benchmarks.report_jsonschemabench import report
from benchmarks.schemastore import DOCUMENTS, SCHEMAS, schemas, texts_of
from tests import vocabularies

SERVER = {
    "type": "object",
    "properties": {"on": {"type": "boolean"}, "port": {"$ref": "port.json"}, "since": {"type": "string"}},
    "additionalProperties": False,
}


def corpus(folder: Path) -> Path:
    """Write four schemas: one with documents, of which one is refused, and one that is not valid."""
    (folder / SCHEMAS).mkdir(parents=True)
    names = [f"^{letter}[a-c]{{6}}$" for letter in "ab"]
    several = {"anyOf": [{"propertyNames": {"pattern": pattern}, "minProperties": 800} for pattern in names]}
    written = {
        "server": SERVER,
        "port": {"type": "integer", "maximum": 65535},
        "several": several,
        "wrong": {"type": 5},
    }
    for name, schema in written.items():
        (folder / SCHEMAS / f"{name}.json").write_text(json.dumps(schema))
    for tests in DOCUMENTS:
        (folder / tests / "server").mkdir(parents=True)
    valid, invalid = (folder / tests / "server" for tests in DOCUMENTS)
    (valid / "a.json").write_text('{"port": 80.0, "on": true}')
    (valid / "b.yaml").write_text("since: 2026-01-01\non: false\nport: 8080\n")
    (valid / "c.toml").write_text('port = 70000\nsince = "now"\n')
    (valid / "notes.md").write_text("# Nothing to read")
    (invalid / "d.yml").write_text("on: yes\n")
    (invalid / "e.json").write_text('{"port": ')
    (invalid / "f.toml").write_text("since = 2026-01-01\n")
    return folder


def test_documents_are_judged_and_written_in_the_order_of_the_schema(tmp_path: Path) -> None:
    folder = corpus(tmp_path)
    server = next(case for case in schemas(folder) if case.name == "server")
    assert texts_of(server, folder) == [
        ('{"on":true,"port":80}', True),
        ('{"on":false,"port":8080,"since":"2026-01-01"}', True),
        ('{"port":70000,"since":"now"}', False),
        ('{"on":"yes"}', False),
    ]


def test_the_order_depends_on_the_seed_alone(tmp_path: Path) -> None:
    folder = corpus(tmp_path)
    assert schemas(folder) == schemas(folder)
    assert schemas(folder, 2) == schemas(folder)[:2]
    assert {case.name for case in schemas(folder)} == {"server", "port", "several", "wrong"}
    with pytest.raises(FileNotFoundError, match="give a clone of schemastore"):
        schemas(tmp_path / SCHEMAS)


def test_outcomes_verdicts_and_times_are_published(tmp_path: Path) -> None:
    vocabulary = vocabularies.tekken()
    result = run(corpus(tmp_path), vocabulary, "logitkit", None, 60.0, tmp_path / "result.json")
    assert json.loads((tmp_path / "result.json").read_text()) == result
    records = {record["case"]: record for record in result["records"]}
    assert records["server"]["documents"] == 4
    assert not records["server"]["wrong_accepts"] + records["server"]["wrong_rejects"]
    assert records["server"]["compile_s"] > 0
    assert "minProperties" in records["several"]["refused"]
    assert records["wrong"]["refused_s"] > 0
    page = report(result)
    assert page.startswith("# SchemaStore\n\n4 schemas of snapshot ")
    assert "| logitkit | 2 of 4 | 2 | 0 | 2 | 0 (0) | 0 (0) | 4 |" in page
    assert "**Refused by logitkit**" in page
