"""Broken and hostile documents: only errors of logitkit are raised, and soon."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import LogitkitError
from tests.structural_tags.test_refusals import TOKENS, TRIGGERED, deep
from tests.structural_tags.tokens import made, vocabulary, whole

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 400)
    | st.sampled_from(["", "a", "<tool>", "tag", 10**30, 1.5, "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "token", "a"]), inner, max_size=2)
    ),
    max_leaves=3,
)
NAMES = (
    *(
        "const_string",
        "json_schema",
        "qwen_xml_parameter",
        "regex",
        "any_text",
        "sequence",
        "or",
        "optional",
        "plus",
        "star",
    ),
    *(
        "repeat",
        "token",
        "any_tokens",
        "tag",
        "triggered_tags",
        "tags_with_separator",
        "dispatch",
        "token_triggered_tags",
    ),
    *("token_dispatch", "exclude_token", "grammar"),
)
FIELDS = (
    *(
        "value",
        "json_schema",
        "style",
        "pattern",
        "excludes",
        "elements",
        "content",
        "min",
        "max",
        "token",
        "exclude_tokens",
    ),
    *("begin", "end", "triggers", "tags", "separator", "at_least_one", "rules", "loop", "trigger_tokens", "max_tokens"),
)
broken = st.recursive(
    values,
    lambda inner: st.builds(
        lambda name, fields: {"type": name, **fields},
        st.sampled_from(NAMES),
        st.dictionaries(st.sampled_from(FIELDS), inner | st.lists(inner, max_size=2), max_size=5),
    ),
    max_leaves=8,
)


@settings(max_examples=500, deadline=None)
@given(format_=broken)
def test_nothing_else_is_ever_raised(format_: Any) -> None:
    with suppress(LogitkitError):
        made(format_)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, part in inside for found in _leaves(part, (*path, key)))]


def _replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {key: _replaced(part, path[1:], new) if key == path[0] else part for key, part in value.items()}
    return [_replaced(part, path[1:], new) if key == path[0] else part for key, part in enumerate(value)]


LARGE = {
    "type": "sequence",
    "elements": [
        TOKENS,
        {**TRIGGERED, "excludes": ["!"], "at_least_one": True},
        {
            "type": "dispatch",
            "rules": [["x", {"type": "json_schema", "json_schema": {"type": "integer"}}]],
            "loop": False,
        },
        {"type": "repeat", "min": 1, "max": 2, "content": {"type": "regex", "pattern": "[a-z]+"}},
    ],
}


@settings(max_examples=300, deadline=None)
@given(path=st.sampled_from(_leaves(LARGE)), value=values)
def test_nothing_else_is_raised_for_one_wrong_value(path: tuple[Any, ...], value: Any) -> None:
    with suppress(LogitkitError):
        made(_replaced(LARGE, path, value))


def tools(count: int) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    content = {"type": "json_schema", "json_schema": schema}
    tags = [{"begin": f"<f=tool{n}>", "content": content, "end": "</f>"} for n in range(count)]
    return {"type": "triggered_tags", "triggers": ["<f="], "tags": tags}


HOSTILE: dict[str, Callable[[], dict[str, Any]]] = {
    "long text": lambda: {"type": "const_string", "value": "ab" * 200_000},
    "many repetitions": lambda: {"type": "repeat", "min": 10**6, "max": 10**6, "content": tools(3)},
    "repetitions of repetitions": lambda: {
        "type": "repeat",
        "min": 0,
        "max": 1000,
        "content": {"type": "repeat", "min": 0, "max": 1000, "content": tools(1)},
    },
    "many elements": lambda: {
        "type": "or",
        "elements": [{"type": "const_string", "value": str(n)} for n in range(20_000)],
    },
    "many tags": lambda: tools(5000),
    "many excluded texts": lambda: {"type": "any_text", "excludes": [f"{n:08d}" for n in range(20_000)]},
    "deep": lambda: deep(63),
    "deep stars": lambda: {
        "type": "star",
        "content": {"type": "plus", "content": {"type": "star", "content": deep(60)}},
    },
    "free text beside free text": lambda: {
        "type": "sequence",
        "elements": [{"type": "any_text", "excludes": [f"{n}x"]} for n in range(60)],
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents_end_soon(name: str) -> None:
    document = HOSTILE[name]()
    vocabulary().trie  # noqa: B018 - built once
    began = time.process_time()
    with suppress(LogitkitError):
        made(document)
    assert time.process_time() - began < 15


def test_limits_of_a_configuration_hold() -> None:
    with pytest.raises(LogitkitError, match="more than"):
        lk.from_config({"structural_tag": whole(tools(50))}, vocabulary(), limits=lk.Limits(work=1000))
