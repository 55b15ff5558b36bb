"""`scripts/compare-tables` tells equal tables, tables that are equal up to numbering, and different ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import logitkit as lk
from benchmarks import compare_tables
from benchmarks.table_cases import described, walked

BYTES = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), b"ac", None], eos_ids=[257])


def test_equal_languages_have_equal_masks_however_they_are_written() -> None:
    one, other = partial(lk.Regex, "(a|b)c*", BYTES), partial(lk.Regex, "ac*|bc*", BYTES)
    less = partial(lk.Regex, "(a|b)c*d?", BYTES)
    assert walked(one) == walked(other) != walked(less)


def test_an_error_is_a_description_too() -> None:
    assert described(partial(lk.Regex, "(", BYTES))[0] == "refused"
    key, sizes = described(partial(lk.Regex, "a", BYTES))
    assert key == lk.Regex("a", BYTES).automaton.content_key
    assert sizes[0] > 0


def test_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {
        "before": {
            "a": ["1", []],
            "b": ["1", []],
            "c": ["1", []],
            "d": ["refused", "x"],
            "e": ["refused", "x"],
            "f": ["1", []],
        },
        "after": {
            "a": ["1", []],
            "b": ["2", []],
            "c": ["2", []],
            "d": ["refused", "x"],
            "e": ["1", []],
            "g": ["1", []],
        },
    }
    masks = {"before": {"b": ["m"], "c": ["m"]}, "after": {"b": ["m"], "c": ["n"]}}

    def asked(checkout: Path, task: dict[str, Any]) -> dict[str, Any]:
        if task["walks"] is None:
            return tables[checkout.name]
        assert task["walks"] == ["b", "c"]
        return masks[checkout.name]

    monkeypatch.setattr(compare_tables, "asked", asked)
    found = compare_tables.compared(Path("before"), Path("after"), None, 0)
    assert {name: verdict.partition(";")[0] for name, verdict in found.items()} == {
        "a": "equal",
        "b": "equal up to numbering",
        "c": "masks differ",
        "d": "equal",
        "e": "before: ['refused', 'x']",
        "f": "only in one checkout",
        "g": "only in one checkout",
    }
