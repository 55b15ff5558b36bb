"""Requests for tool calls, structural tags, schemas and free text, and whether an output is what its request asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema

import logitkit as lk
from tests.adapters_vllm import engine, schemas

# Schemas of arguments, by the name of the tool.
ARGUMENTS: dict[str, Any] = {
    "get_weather": {
        "type": "object",
        "properties": {
            "city": {"enum": ["Berlin", "Paris"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 9},
        },
        "required": ["city"],
        "additionalProperties": False,
    },
    "find": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^[A-Z][a-z]+$", "maxLength": 8},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
        },
        "required": ["name", "tags"],
        "additionalProperties": False,
    },
    "stop": {"type": "object", "properties": {}, "additionalProperties": False},
}

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "description": f"Do {name}.", "parameters": schema}}
    for name, schema in ARGUMENTS.items()
]

# A required call of any tool, several calls, one of two tools, one tool, a call or an answer, and no call.
CONFIGURATIONS: tuple[dict[str, Any], ...] = (
    {"tools": TOOLS, "choice": "required", "parallel": False, "closing": True},
    {"tools": TOOLS, "choice": "required", "closing": True},
    {"tools": TOOLS, "choice": ["find", "stop"], "parallel": False, "closing": 90},
    {"tools": TOOLS, "choice": "get_weather", "parallel": False, "closing": True},
    {"tools": TOOLS, "choice": "auto", "parallel": False, "answer": schemas.PERSON, "closing": True},
    {"tools": TOOLS, "choice": "none", "closing": 20},
)

DOCUMENT = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<function="],
        "tags": [
            {
                "begin": f"<function={name}>",
                "content": {"type": "json_schema", "json_schema": schema},
                "end": "</function>",
            }
            for name, schema in ARGUMENTS.items()
        ],
        "at_least_one": True,
        "stop_after_first": True,
    },
}
TAG = {"structural_tag": {"document": DOCUMENT, "closing": True}}
SCHEMA = {"json_schema": {"schema": schemas.PERSON, "closing": True}, "repetition_penalty": 1.1}

# The configurations of requests, in turn.
CONFIGS: tuple[dict[str, Any] | None, ...] = (
    *({"tools": config} for config in CONFIGURATIONS),
    TAG,
    SCHEMA,
    None,
    {"tools": CONFIGURATIONS[1], "repetition_penalty": 1.05},
    TAG,
)

TOKENS = 120


def reader(config: dict[str, Any]) -> lk.Tools:
    """Return what reads the turns of a configuration of tools."""
    named = {name: config[name] for name in ("choice", "parallel", "answer") if name in config}
    return lk.Tools(config["tools"], **named)


def requests(count: int, tokens: int = TOKENS, samples: int = 2) -> list[tuple[str, dict[str, Any]]]:
    """Return requests, of which every second one is greedy, and the others sample."""
    found = []
    for number in range(count):
        config = CONFIGS[number % len(CONFIGS)]
        drawn = {"n": samples, "temperature": 1.0} if number % 2 else {"n": 1, "temperature": 0.0}
        extra = None if config is None else {"logitkit": config}
        found.append((engine.prompt(number), {"max_tokens": tokens, **drawn, "extra_args": extra}))
    return found


def check(number: int, text: str, tokens: list[int], vocabulary: lk.Vocabulary) -> None:
    """Assert that an output is what its request asks for."""
    config = CONFIGS[number % len(CONFIGS)]
    if config is None:
        assert tokens
    elif "structural_tag" in config:
        found = re.fullmatch("<function=([a-z_]+)>(.*)</function>", text, re.DOTALL)
        assert found, text
        jsonschema.Draft202012Validator(ARGUMENTS[found[1]]).validate(json.loads(found[2]))
    elif "json_schema" in config:
        schemas.check(text, schemas.PERSON)
    else:
        _check_turn(config["tools"], text, tokens, vocabulary)


def _check_turn(config: dict[str, Any], text: str, tokens: list[int], vocabulary: lk.Vocabulary) -> None:
    tools = reader(config)
    turn = tools.parse(text)
    assert turn.complete, (text, turn.problem)
    assert turn.problem is None, text
    by_ids = tools.parse(tokens, vocabulary)
    assert by_ids.outside_at is None
    assert [(call.name, call.arguments) for call in by_ids.calls] == [
        (call.name, call.arguments) for call in turn.calls
    ]
    check_calls(config, [(call.name, call.arguments) for call in turn.calls])
    if config["choice"] == "none":
        assert "<tool_call>" not in text
    if config["choice"] == "auto" and not turn.calls:
        schemas.check(text, schemas.PERSON)


def check_calls(config: dict[str, Any], calls: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Assert that a turn of a configuration may have these calls, given by names and arguments."""
    choice = config["choice"]
    named = {choice} if isinstance(choice, str) else set(choice)
    if choice == "none":
        assert not calls
    elif choice != "auto":
        assert calls
    for name, arguments in calls:
        assert choice in ("auto", "required") or name in named
        jsonschema.Draft202012Validator(ARGUMENTS[name]).validate(dict(arguments))
    assert len(calls) <= 1 or config.get("parallel", True)
