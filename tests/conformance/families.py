"""A processor for each family, and how to see that a text came out of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import logitkit as lk
from tests.adapters.demo import vocabulary
from tests.conformance.cases import RECORD, processors

FAMILIES = (
    *("languages", "schemas", "recursive schemas", "texts", "stops", "token ids", "repetition", "distribution"),
    *("reasoning", "tool calls", "grammars", "chains"),
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        # Long enough for its characters to be counted.
        "name": {"type": "string", "pattern": "^[A-Z][a-z]+$", "minLength": 17, "maxLength": 20},
        "age": {"type": "integer", "minimum": 18, "maximum": 99},
        # Long enough to be written in blocks.
        "tags": {"type": "array", "items": {"enum": ["new", "top"]}, "maxItems": 60},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
# A row remembers the items of the array.
LIKES = {
    "type": "array",
    "minItems": 2,
    "maxItems": 3,
    "uniqueItems": True,
    "items": {"type": "string", "pattern": "^[a-z]{1,3}$"},
}
REMEMBERED = {**SCHEMA, "properties": {**SCHEMA["properties"], "likes": LIKES}, "required": ["name", "age", "likes"]}
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "parts": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["parts"],
    "additionalProperties": False,
}
# It nests, its terminals compete, and a name must not be a keyword.
PROGRAM = r"""
start: statement+
statement: "if" expression "{" statement* "}" | NAME "=" expression ";"
expression: (NAME | NUMBER | "(" expression ")") [("+" | "*") expression]
NAME: /[a-z]{1,8}/
NUMBER: /[0-9]{1,4}/
%ignore " "
"""
# Most words have the trigger, so that free text and JSON take turns.
CALLS: dict[str, Any] = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["e"],
        "tags": [
            {"type": "tag", "begin": "e", "content": {"type": "json_schema", "json_schema": SCHEMA}, "end": ". "},
            {"type": "tag", "begin": "es", "content": {"type": "regex", "pattern": "[a-z]{2,9}"}, "end": "</"},
        ],
    },
}


@cache
def family(name: str) -> lk.Processor[Any]:
    """Return the processor that stands for a family."""
    v = vocabulary()
    make: dict[str, Callable[[], lk.Processor[Any]]] = {
        "languages": lambda: lk.Regex(RECORD, v),
        "schemas": lambda: lk.JsonSchema(REMEMBERED, v),
        "recursive schemas": lambda: lk.JsonSchema(TREE, v, whitespace="bounded", closing=32),
        "texts": lambda: lk.chain(lk.ForcedPrefix("The ", v), lk.BannedStrings(["the ", "a", "."], v)),
        "stops": lambda: lk.chain(
            lk.LoopStop(v, count=2), lk.StopStrings([". ", "\n", " and", re.compile("[e-k][a-z]")], v)
        ),
        "token ids": lambda: lk.chain(
            lk.LogitBias({5: 2.0, 300: -3.0}),
            lk.BanTokens(range(300, 400)),
            lk.MinNewTokens(20, v.eos_ids),
            lk.ForcedTokens([40, 0, 41]),
        ),
        "repetition": lambda: lk.chain(
            lk.RepetitionPenalty(1.3, window=32),
            lk.FrequencyPenalty(0.2),
            lk.PresencePenalty(0.3, include_prompt=True),
            lk.Dry(0.8, vocabulary=v),
            lk.NoRepeatNGram(3),
        ),
        "distribution": lambda: lk.chain(
            lk.Temperature(0.7), lk.TopK(40), lk.TopNSigma(3.0), lk.TypicalP(0.97), lk.TopP(0.9), lk.MinP(0.02)
        ),
        "reasoning": lambda: processors()["thought, then date"],
        "tool calls": lambda: lk.from_structural_tag(CALLS, v),
        "grammars": lambda: lk.Grammar(PROGRAM, v, syntax="lark", max_depth=8),
        "chains": lambda: processors()["record, told not to repeat itself"],
    }
    return make[name]()
