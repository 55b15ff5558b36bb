"""Every message of every error can be sent: it is valid UTF-8 and bounded in length."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import logitkit as lk
import logitkit_adapters  # noqa: F401  its errors are subclasses too
from logitkit.errors import (
    ConfigurationError,
    GrammarError,
    IllegalToken,
    IncompleteOutput,
    LogitkitError,
    NoParticleLeft,
    OutputError,
    PatternSyntaxError,
    ToolResultError,
    UnsupportedSchema,
)
from logitkit.languages.free_text import TooFewTokens

SURROGATE = "\ud800"
MOST = 2200
VOCABULARY = lk.Vocabulary([*[bytes([b]) for b in range(256)], None], eos_ids=[256])


def _classes(base: type[LogitkitError]) -> list[type[LogitkitError]]:
    return [base, *[found for child in base.__subclasses__() for found in _classes(child)]]


def _made(kind: type[LogitkitError], text: str) -> list[LogitkitError]:
    """Instances whose every part holds a text."""
    if issubclass(kind, PatternSyntaxError):
        return [kind(text, text, position) for position in (0, len(text) // 2, len(text))]
    if issubclass(kind, GrammarError):
        return [kind(text), *(kind(text, text, position) for position in (0, len(text) // 2, len(text)))]
    if issubclass(kind, UnsupportedSchema):
        return [kind(text), kind(text, f"#/{text}"), kind(text, f"#/{text}", text)]
    if issubclass(kind, IncompleteOutput):
        return [kind(text, 3), kind(text, 3, 5, text)]
    if issubclass(kind, OutputError):
        listed = kind(text, text)
        listed.outputs = (text, text)
        return [kind(text), listed]
    if issubclass(kind, IllegalToken):
        return [kind(text, row=0, step=3, token=7)]
    if issubclass(kind, NoParticleLeft):
        return [kind(16, 5, 20), kind(16, 20, 20)]
    if issubclass(kind, ToolResultError):
        return [kind(text, text), kind(text, text, text)]
    if issubclass(kind, TooFewTokens):
        return [kind(text, 5, 3)]
    return [kind(text), kind(text, text), kind(text.encode("utf-8", "surrogatepass"))]


CLASSES: list[type[LogitkitError]] = list(dict.fromkeys(_classes(LogitkitError)))


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("text", [SURROGATE, "a" * 100_000, SURROGATE * 100_000, "\n" + "😀" * 5000], ids=range(4))
def test_a_message_can_be_sent(kind: type[LogitkitError], text: str) -> None:
    for error in _made(kind, text):
        said = str(error)
        assert len(said.encode()) <= 6 * MOST
        assert len(said.replace("\\ud800", "?")) <= MOST
        assert str(pickle.loads(pickle.dumps(error))) == said
        assert str(copy.deepcopy(error)) == said
        assert error.args[0] == pickle.loads(pickle.dumps(error)).args[0]


def test_a_short_message_is_as_it_was_written() -> None:
    said = "the name 'é😀' is unknown;\nallowed are 'a' and 'b'"
    assert str(ConfigurationError(said)) == said
    assert str(ConfigurationError("x" * 2000)) == "x" * 2000
    assert str(LogitkitError()) == ""


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    said = str(ConfigurationError("options[3] is " + "y" * 50_000 + "; allowed are strings of up to 100 characters"))
    assert said.startswith("options[3] is yyy")
    assert said.endswith("; allowed are strings of up to 100 characters")
    assert "characters left out" in said


NAMES: list[Any] = [SURROGATE, "x" * 50_000, f"{SURROGATE}/~" * 20_000]
SCHEMAS: dict[str, Any] = {
    "dependentSchemas": lambda name: {"dependentSchemas": {name: 1}},
    "properties": lambda name: {"properties": {name: 3}},
    "a format": lambda name: {"schema": {"type": "string", "format": name}, "strict_formats": True},
    "a pattern": lambda name: {"type": "string", "pattern": f"({name}"},
    "a reference": lambda name: {"$ref": f"#/{name}"},
    "a type": lambda name: {"type": name},
    "a dialect": lambda name: {"$schema": name},
    "an anchor": lambda name: {"$anchor": name, "$ref": f"#{name}x"},
    "required": lambda name: {"required": [name, 3]},
}


@pytest.mark.parametrize("which", range(len(NAMES)))
@pytest.mark.parametrize("keyword", SCHEMAS)
def test_what_a_schema_holds_breaks_no_message(keyword: str, which: int) -> None:
    with pytest.raises(LogitkitError) as error:
        lk.from_config({"json_schema": SCHEMAS[keyword](NAMES[which])}, VOCABULARY)
    assert len(str(error.value).encode()) <= 6 * MOST


@pytest.mark.parametrize("which", range(len(NAMES)))
def test_what_a_configuration_holds_breaks_no_message(which: int) -> None:
    name = NAMES[which]
    for config in ({name: 1}, {"regex": f"({name}"}, {"choice": name}, {"regex": {name: 1}}, {"temperature": name}):
        with pytest.raises(LogitkitError) as error:
            lk.from_config(config, VOCABULARY)
        assert len(str(error.value).encode()) <= 6 * MOST
