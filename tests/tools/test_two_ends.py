r"""Values that may end with `\n</parameter>` or with `</parameter>`: masks, and texts that are legal."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from jsonschema import Draft202012Validator

import logitkit as lk
from logitkit.compiler.nested_grammars import instance_builder
from logitkit.json_schema.string_set import StringSet
from logitkit.languages import dispatch, sequence
from tests.examples import examples
from tests.in_step import masks_in_step
from tests.tools.raw_text import VOCABULARY, counts, uncounted, walk
from tests.tools.test_counted_xml import SCHEMAS, UNCOUNTED, schema_of
from tests.tools.two_ends import ENDS, language_of, plain_reading

LONG = {"type": "string", "maxLength": 64}


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("name", [*SCHEMAS, *UNCOUNTED])
def test_masks_are_those_without_counting(name: str, ends: str) -> None:
    language = language_of(schema_of(name), ends)
    # White space after the marker comes too late to be text, so a text that is too short could not always go on.
    late = any(end[-1].isspace() for end in ENDS[ends][:2])
    assert counts(language) == (name in SCHEMAS and not (name == "shortest" and late))
    for seed in range(examples(8)):
        walk(language, seed, 60)


@pytest.mark.parametrize("name", ["two", "pattern", "any text", "beside any text"])
def test_masks_without_fragments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for ends in ENDS:
        language = language_of(schema_of(name), ends)
        one = language.constraint(VOCABULARY)
        with monkeypatch.context() as patched:
            other = uncounted(language, patched)
        for seed in range(examples(8)):
            compare(one, other, seed)


def compare(one: Any, other: Any, seed: int) -> None:
    """Compare the masks of the first tokens of a random text."""
    # A text without a limit need not have ended.
    for legal, same in itertools.islice(masks_in_step(one, other, seed, 60), 60):
        assert torch.equal(legal, same)


@pytest.mark.parametrize("ends", ENDS)
def test_masks_of_texts_that_are_called(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_builder, "LARGE_INSTANCES", 0)
    for name in ("two", "any text"):
        arguments = language_of(schema_of(name), ends)
        language = sequence(arguments, "|", dispatch({"<call>": sequence("<call>", arguments, "</call>")}))
        for seed in range(examples(8)):
            walk(language, seed, 80)


@pytest.mark.parametrize("ends", ENDS)
def test_counted_text_ends_in_time(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"properties": {"x": LONG, "y": LONG}, "required": ["x"], "additionalProperties": False}
    language = language_of({"type": "object", **schema}, ends)
    budgets = (12, 30, 90)
    counted = [language.constraint(VOCABULARY, closing=budget) for budget in budgets]
    assert counted[0].automaton.counting is not None
    monkeypatch.setattr(StringSet, "counts", lambda *_: False)
    limits = replace(counted[0].limits, work=counted[0].limits.work + 1)
    for budget, one in zip(budgets, counted, strict=True):
        other = language.constraint(VOCABULARY, closing=budget, limits=limits)
        for seed in range(examples(8)):
            for place, (legal, exact) in enumerate(masks_in_step(one, other, seed, budget)):
                # With some counts, the end may take fewer tokens than with all.
                assert not (legal & ~exact).any()
                if budget - place > 20:
                    assert torch.equal(legal, exact)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize(
    "value",
    [
        {"type": "string"},
        {"type": "string", "maxLength": 2},
        {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^a*\n?$"},
        {"enum": ["a", "a\n", "\n\n", " "]},
        {"type": "string", "pattern": "\n$"},
    ],
)
def test_short_texts_are_those_of_a_plain_reader(value: dict[str, Any], ends: str) -> None:
    """All texts of up to five characters before a marker."""
    schema = {"type": "object", "properties": {"x": value}, "required": ["x"], "additionalProperties": False}
    constraint = language_of(schema, ends).constraint(VOCABULARY)
    # In `re`, `$` also matches before a line feed at the end.
    validator = Draft202012Validator(json.loads(json.dumps(value).replace("$", r"\\Z")))
    after = {end.split("</parameter>")[1] for end in ENDS[ends][:2]}
    for size in range(6):
        for characters in itertools.product("a\n ", repeat=size):
            for tail in after:
                text = f"<parameter=x>\n{''.join(characters)}</parameter>{tail}"
                read = plain_reading(text, ends)
                valid = read is not None and validator.is_valid(read[0][1])
                assert constraint.matches(text) == valid, text


@pytest.mark.parametrize("ends", ENDS)
def test_tokens_over_a_whole_text(ends: str) -> None:
    """From inside of the tag, from the byte before the text, and from its first character to its end, at the bounds."""
    texts = ["a" * size + feeds for size in range(16, 23) for feeds in ("", "\n", "\n\n")]
    over = [f"{text}{end}" for text in texts for end in ENDS[ends][:2]]
    tokens = [
        *(bytes([byte]) for byte in range(256)),
        *(start + text.encode() for start in (b">\n", b"\n", b"") for text in over),
    ]
    vocabulary = lk.Vocabulary([*tokens, None], eos_ids=[len(tokens)])
    bounds = {"least": 0, "most": 20} if any(end[-1].isspace() for end in ENDS[ends][:2]) else {"least": 17, "most": 60}
    for least, most in {(0, 20), tuple(bounds.values())}:
        value = {"type": "string", "minLength": least, "maxLength": most}
        schema = {"type": "object", "properties": {"x": value}, "required": ["x"], "additionalProperties": False}
        constraint = language_of(schema, ends).constraint(vocabulary)
        assert constraint.automaton.counting is not None
        start = "<parameter=x>\n"
        for cut in (2, 1, 0):
            state = constraint.init_state(lk.Context.of([[]], vocabulary_size=len(tokens) + 1))
            for byte in start[: len(start) - cut].encode():
                state = constraint.advance(state, torch.tensor([byte]))
            allowed = constraint.allowed_tokens(state)[0].tolist()
            for at, token in list(enumerate(tokens))[256:]:
                if not start.encode().endswith(token[:cut]) or token[cut : cut + 1] != b"a":
                    continue
                # The long end may go on with a line feed after the marker.
                reads = [plain_reading(start + token[cut:].decode() + after, ends) for after in ("", "\n")]
                assert allowed[at] == any(read and least <= len(read[0][1]) <= most for read in reads), token


@pytest.mark.parametrize("least", [0, 17])
@pytest.mark.parametrize("ends", ["short too", "long too", "much longer too"])
def test_the_fragment_holds_the_texts_of_a_plain_reader(least: int, ends: str) -> None:
    """Lengths around both bounds, with 0 to 3 line feeds, and with parts of the marker as text."""
    value = {"type": "string", "minLength": least, "maxLength": 60}
    schema = {"type": "object", "properties": {"x": value}, "required": ["x"]}
    language = language_of({**schema, "additionalProperties": False}, ends)
    constraint = language.constraint(VOCABULARY)
    found = set()
    for size in (*range(least - 1 if least else 0, least + 14), *range(44, 64)):
        for part in ("", "</parameter", "\n</p"):
            for feeds in range(4):
                text = f"<parameter=x>\n{'a' * size}{part}{chr(10) * feeds}</parameter>"
                for after in ("", "\n"):
                    read = plain_reading(text + after, ends)
                    valid = read is not None and least <= len(read[0][1]) <= 60
                    assert constraint.matches(text + after) == valid
                    found.add(valid)
    assert found == {True, False}
