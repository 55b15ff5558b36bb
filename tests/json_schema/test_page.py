"""The page on JSON Schema: its code runs, and prints what it should."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import logitkit as lk

PAGE = Path(__file__).resolve().parents[2] / "docs" / "json-schema.md"


SIZES: dict[str, Any] = {
    "a string of any length": {"type": "string", "maxLength": 2**31},
    "a URI of any length": {"type": "string", "format": "uri", "maxLength": 10**6},
    "names of up to 4,000 characters": {"type": "object", "propertyNames": {"maxLength": 4000}},
    "`maxItems: 1000`": {"type": "array", "maxItems": 1000},
}


@pytest.mark.parametrize("said", SIZES)
def test_what_it_says_fits(said: str, tekken: lk.Vocabulary) -> None:
    assert said in re.sub(r"\s+", " ", PAGE.read_text("utf-8"))
    assert lk.JsonSchema(SIZES[said], tekken).automaton.states > 10


def test_its_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    printed = []
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        exec(compile(block, PAGE.name, "exec", dont_inherit=True), names)
        printed.append(capsys.readouterr().out)
    assert printed == [
        "name True\n",
        "Order\n",
        "Job\n",
        "(\"'format' at #: the format 'phone' is not known\",)\n",
        "list\n",
    ]
