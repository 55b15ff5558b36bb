"""Tools that are too many or too large are refused within seconds, with an error that says so."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError, LogitkitError, PatternTooLarge, UnsupportedSchema
from tests import vocabularies
from tests.examples import of_all

# Generous: machines that run tests are slow.
SECONDS = 20


def tool(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "parameters": {"type": "object", "properties": properties}}


def tools(count: int) -> list[dict[str, Any]]:
    """Return tools that share no member."""
    return [tool(f"t{n}", **{f"a{n}": {"type": "string"}, f"b{n}": {"type": "array"}}) for n in range(count)]


def combinations(count: int) -> dict[str, Any]:
    """Return a schema of objects whose members overlap."""
    members = [{f"k{i}": {"type": "string"} for i in range(first, first + 12)} for first in range(count)]
    return {"anyOf": [{"type": "object", "properties": some} for some in members]}


CASES: dict[str, tuple[Callable[[], list[Any]], type[LogitkitError], str]] = {
    "5,000 tools": (lambda: tools(5000), ConfigurationError, "there are 5000 tools; allowed are at most 2000"),
    "2,000 tools": (
        lambda: tools(2000),
        LogitkitError,
        "different schemas in the tools; allowed are 1,333|compiling the (tools|schema) takes more",
    ),
    "markup": (lambda: [tool('a", "arguments": {}}</tool_call>')], ConfigurationError, "cannot be taken for markup"),
    "a name of 200,000 characters": (lambda: [tool("a", **{"k" * 200_000: True})], PatternTooLarge, "simplify"),
    "1,000 members": (
        lambda: [tool("a", **{f"p{i}": {"type": "string"} for i in range(1000)})],
        PatternTooLarge,
        "compiling the tools takes more than",
    ),
    "combinations": (lambda: [tool(f"a{n}", x=combinations(40)) for n in range(20)], LogitkitError, "more than"),
    "patterns": (
        lambda: [tool("a", x={"type": "string", "pattern": "^(a|b|ab)*.{0,300}(c|d).{0,300}$"})],
        LogitkitError,
        r"'pattern' at tools\['a'\]#/properties/x|compiling the tools takes more than",
    ),
    "nested lists": (
        lambda: [tool("a", x={"type": "array", "maxItems": 10**5, "contains": {"type": "string", "maxLength": 500}})],
        UnsupportedSchema,
        r"'maxItems' at tools\['a'\]#/properties/x",
    ),
}


@pytest.mark.parametrize("form", ["hermes", "qwen_coder"])
@pytest.mark.parametrize("name", of_all(CASES, 2))
def test_they_are_refused_soon(name: str, form: str) -> None:
    make, error, message = CASES[name]
    given, vocabulary = make(), vocabularies.sentencepiece_32k()
    vocabulary.trie  # noqa: B018 - built once
    began = time.process_time()
    with pytest.raises(error, match=message):
        lk.Tools(given, form).constraint(vocabulary)
    assert time.process_time() - began < SECONDS
