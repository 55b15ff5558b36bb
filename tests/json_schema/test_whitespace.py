"""`whitespace="bounded"`: what `json.dumps` may write is legal, and no model can go on with spaces for ever."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.json_schema.layout import WIDEST_INDENT
from tests.json_schema.acceptance import BYTES
from tests.json_schema.walks import walk

SPACES = b" \n\t\r"
# No string may be any text: all space is white space.
RECORD = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"type": "array", "items": {"enum": ["x", None]}},
        "c": {"type": "object", "properties": {"d": {"type": "boolean"}}, "additionalProperties": False},
    },
    "required": ["a"],
    "additionalProperties": False,
}
TREE = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}}]}
ANY_KEY = {"type": "object", "propertyNames": {"enum": ["k", "l"]}, "additionalProperties": {"type": "integer"}}
SCHEMAS: dict[str, Any] = {"record": RECORD, "tree": TREE, "names": ANY_KEY}
VALUES: list[tuple[str, Any]] = [
    ("record", {"a": 1}),
    ("record", {"a": -10, "b": []}),
    ("record", {"a": 0, "b": ["x", None, "x"], "c": {"d": True}}),
    ("record", {"a": 0, "c": {}}),
    ("tree", None),
    ("tree", []),
    ("tree", [[], [None, [[]]]]),
    ("names", {"k": 1, "l": 2}),
]


def automaton(name: str, whitespace: Any = "bounded") -> NestedDfa:
    return lk.JsonSchema(SCHEMAS[name], BYTES, whitespace=whitespace).nested_dfa()


@pytest.mark.parametrize(("name", "value"), VALUES)
def test_all_that_dumps_writes_is_legal(name: str, value: Any) -> None:
    bounded, spaced, compact = automaton(name), automaton(name, "spaced"), automaton(name, "compact")
    texts = {json.dumps(value, indent=indent) for indent in (None, 0, 1, 2, 3, 4, 8)}
    texts |= {json.dumps(value, indent=2, separators=(",", colon)) for colon in (":", ": ")}
    shortest = json.dumps(value, separators=(",", ":"))
    for text in {*texts, shortest}:
        assert bounded.accepts(text.encode()), text
        assert compact.accepts(text.encode()) == (text == shortest)
    separators = [",", ", "], [":", ": "]
    on_one_line = {json.dumps(value, separators=pair) for pair in itertools.product(*separators)}
    for text in texts | on_one_line:
        assert spaced.accepts(text.encode()) == (text in on_one_line), text


@pytest.mark.parametrize(
    "text",
    [
        '{ "a":1}',
        '{"a" :1}',
        '{"a":  1}',
        '{"a":\n1}',
        '{"a":1 }',
        ' {"a":1}',
        '{"a":1}\n',
        '{\n\n"a":1}',
        '{\t"a":1}',
        '{\r\n"a":1}',
        '{"a":1,  "b":[]}',
        '{"a":1 ,"b":[]}',
        '{"a":1, \n"b":[]}',
        '{"a":1,"b":[ ]}',
        '{"a":1,"b":[ "x"]}',
        '{"a":1,"b":["x" ]}',
        '{"a": - 1}',
    ],
)
def test_other_white_space_is_not(text: str) -> None:
    bounded = automaton("record")
    assert bounded.accepts(json.dumps(json.loads(text.replace("- ", "-"))).encode())
    assert not bounded.accepts(text.encode())


@pytest.mark.parametrize("before", ["{", '{"a":1,', '{"a":1,"b":[', '{"a":1,"b":["x"'])
def test_an_indent_has_a_widest(before: str) -> None:
    bounded = automaton("record")
    behind = {"{": '"a":1}', '{"a":1,': '"b":[]}', '{"a":1,"b":[': "null]}", '{"a":1,"b":["x"': "]}"}[before]
    for spaces in (0, 1, WIDEST_INDENT):
        assert bounded.accepts(f"{before}\n{' ' * spaces}{behind}".encode())
    assert not bounded.accepts(f"{before}\n{' ' * (WIDEST_INDENT + 1)}{behind}".encode())


def longest_run(dfa: NestedDfa) -> float:
    """The most white space that the automaton takes at a time, wherever it is."""
    columns = sorted({int(dfa.byte_class[byte]) for byte in SPACES})
    length = np.zeros(dfa.states)
    for _ in range(1000):
        # White space neither opens nor closes anything.
        assert NestedStep.is_state(dfa.step[:, columns]).all()
        step = dfa.step[:, columns]
        longer = np.where(step != DEAD, 1 + length[step], 0).max(axis=1)
        if (longer == length).all():
            return float(length.max())
        length = longer
    return np.inf


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_longest_run_of_white_space(name: str) -> None:
    assert longest_run(automaton(name)) == 1 + WIDEST_INDENT
    assert longest_run(automaton(name, "compact")) == 0
    free = {**SCHEMAS[name], "title": "any text has any run"}
    assert longest_run(lk.JsonSchema({"anyOf": [free, {"type": "string"}]}, BYTES).nested_dfa()) == np.inf


SPACED = lk.Vocabulary(
    [*[bytes([b]) for b in range(256)], b"  ", b"    ", b"\n\n", b"\n  ", b" " * 40, None], eos_ids=[261]
)


@pytest.mark.parametrize("vocabulary", [BYTES, SPACED], ids=["bytes", "runs"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_model_that_loves_spaces_cannot_run_away(name: str, vocabulary: lk.Vocabulary) -> None:
    """It takes white space wherever there may be some, and ends where it may."""
    loved = torch.tensor([9.0 * (token is not None and not token.strip()) for token in vocabulary.tokens])
    loved[list(vocabulary.eos_ids)] = 7
    loved[[ord("}"), ord("]")]] = 5

    def opinion(logits: Tensor, ids: list[int]) -> Tensor:
        return logits + loved

    schema = lk.JsonSchema(SCHEMAS[name], vocabulary, whitespace="bounded")
    longest = 0
    for seed in range(8):
        text, _, ended = walk(schema, seed, 600, opinion)
        assert ended, text
        json.loads(text)
        longest = max(longest, *map(len, re.findall(rb"\s*", text)))
    assert longest == 1 + WIDEST_INDENT
