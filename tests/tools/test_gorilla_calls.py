"""`gorilla_calls` tells right readings from wrong ones, and what is refused, on questions in the form of the leaderboard."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.tools.gorilla_calls import check, main, schema_of

FUNCTION: dict[str, Any] = {
    "name": "geometry.area",
    "parameters": {
        "type": "dict",
        "properties": {
            "sides": {"type": "tuple", "items": {"type": "float"}},
            "unit": {"type": "String", "enum": ["cm", "m"]},
            "more": {"type": "HashMap", "properties": {"exact": {"type": "bool"}}},
            "note": {"type": "any"},
        },
        "required": ["sides"],
    },
}


def test_types_are_those_of_json_schema() -> None:
    assert schema_of(FUNCTION["parameters"]) == {
        "type": "object",
        "properties": {
            "sides": {"type": "array", "items": {"type": "number"}},
            "unit": {"type": "string", "enum": ["cm", "m"]},
            "more": {"type": "object", "properties": {"exact": {"type": "boolean"}}},
            "note": {},
        },
        "required": ["sides"],
    }


@pytest.mark.parametrize("form", ["hermes", "qwen_coder"])
def test_valid_calls_are_read_and_others_are_refused(form: str) -> None:
    expected: list[Any] = [
        {"geometry.area": {"sides": [[3, 4.5]], "unit": ["m", ""], "more": [{"exact": [True]}], "note": [{}]}},
        {"geometry.area": {"sides": [[1, "wide"]]}},
    ]
    found: Counter[str] = Counter()
    assert check([FUNCTION], expected, form, found) is None
    assert found == {"functions": 1, "turns valid, and read back": 1, "turns that are not valid, and refused": 2}


def test_the_table_names_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {"name": "never", "parameters": {"type": "dict", "properties": {"a": {"type": ""}}}}
    (tmp_path / "possible_answer").mkdir()
    lines = [{"id": "simple_0", "function": [FUNCTION]}, {"id": "simple_1", "function": [wrong]}]
    (tmp_path / "BFCL_v4_simple.json").write_text("\n".join(map(json.dumps, lines)))
    answer = {"id": "simple_0", "ground_truth": [{"geometry.area": {"sides": [[2.0]]}}]}
    (tmp_path / "possible_answer" / "BFCL_v4_simple.json").write_text(json.dumps(answer))
    main(tmp_path, ["hermes"])
    said = capsys.readouterr().out
    assert "hermes, simple: refused: tools['never']: 'type' at #/properties/a is ''" in said
    counts = json.loads(said.strip().rpartition("hermes: ")[2])
    assert (counts["questions"], counts["functions"], counts["questions refused"]) == (2, 2, 1)
    assert counts["turns valid, and read back"] == 2
    assert "wrong" not in counts
