"""One step of `JsonSchema` beside one of `Regex`, on the same text: a flat object, and one that may nest without bound."""

from __future__ import annotations

import json
from typing import Any

import torch

import logitkit as lk
from benchmarks.peer import Rows
from benchmarks.peers import Logitkit as RegexPeer
from benchmarks.peers import LogitkitRows as RegexRows
from benchmarks.schema_peers import Logitkit, LogitkitRows, Spelling, accepts
from benchmarks.side_by_side import medians
from logitkit.vocabulary import Vocabulary

_CHARACTER = r'(?:[^"\\\x00-\x1f]|\\(?:["\\bfnrt]|u00[01][0-9a-f]))'
_PATTERN = (
    r'\{"id":-?(?:0|[1-9]\d*)'.replace(r"\d", "[0-9]")
    + rf',"name":"{_CHARACTER}*","tags":\[(?:"{_CHARACTER}*"(?:,"{_CHARACTER}*")*)?\],"next":null\}}'
)
_FLAT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "next": {"type": "null"},
    },
    "required": ["id", "name", "tags", "next"],
    "additionalProperties": False,
}
_NESTED = {**_FLAT, "properties": {**_FLAT["properties"], "next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}}
_TEXT = '{"id":712,"name":"Ada Lovelace","tags":["first","b\\n"],"next":null}'


def steps(vocabulary: Vocabulary) -> dict[str, dict[str, float]]:
    """Return the median seconds of a step at batch 1 and 32, in turns, for `Regex`, a flat schema and a nesting one."""
    tokens = Spelling(vocabulary)(_TEXT.encode())
    regex, schemas = RegexPeer(vocabulary), Logitkit(vocabulary)
    compiled = {"Regex": lk.Regex(_PATTERN, vocabulary)}
    nesting = {name: lk.JsonSchema(json.dumps(s), vocabulary) for name, s in (("flat", _FLAT), ("nested", _NESTED))}
    eos, row = vocabulary.eos_ids[0], torch.zeros(1, vocabulary.size)
    assert accepts(regex.start(compiled["Regex"], 1), tokens, eos, row)
    assert all(accepts(schemas.start(schema, 1), tokens, eos, row) for schema in nesting.values())
    found: dict[str, dict[str, float]] = {}
    for rows in (1, 32):
        logits = torch.zeros(rows, vocabulary.size)
        starts: dict[str, Rows] = {"Regex": RegexRows(compiled["Regex"], rows)}
        starts |= {name: LogitkitRows(schema, rows) for name, schema in nesting.items()}
        turns = {name: _whole_text(begun, tokens, rows, logits) for name, begun in starts.items()}
        taken = medians(turns, rounds=100 if rows == 1 else 20)
        found[f"batch_{rows}"] = {name: seconds / len(tokens) for name, seconds in taken.items()}
    return found


def _whole_text(rows: Rows, tokens: list[int], count: int, logits: torch.Tensor) -> Any:
    columns = [torch.full((count,), token) for token in tokens]
    again = torch.full((count,), -1)

    def run() -> None:
        for column in columns:
            rows.mask(logits)
            rows.advance(column)
        rows.advance(again)

    return run
