"""The masks of languages, after every sequence of tokens, against a plain matcher and brute force."""

from __future__ import annotations

from typing import Any

import pytest

from logitkit.languages import (
    Language,
    any_text,
    choice,
    dispatch,
    either,
    json_schema,
    literal,
    optional,
    repeat,
    sequence,
    special,
    tag,
)
from tests.languages.comparison import compare
from tests.languages.patterns import Any as AnyCharacter
from tests.languages.patterns import Chars, Choice, Several, Two, pattern_of
from tests.languages.vocabularies import BYTES, GAPS, JSON, NAMED, SHOWN, SPELLED

VOCABULARIES = {"named": NAMED, "spelled": SPELLED, "gaps": GAPS, "bytes": BYTES}
AB = pattern_of(Several(Chars("ab"), 1, 3))
FREE = pattern_of(Several(AnyCharacter, 0, None))
CALL = tag("<t>", AB, ">")
TOKEN = special("<t>")

LANGUAGES: dict[str, Language] = {
    "literal": literal("ab<t>b"),
    "nothing": literal(""),
    "choice": choice(["a<t>", "ab", "b", "<t>a"]),
    "special": sequence("a", TOKEN, "b"),
    "special by id": sequence("a", special(1), optional("b"), "a"),
    "special by id, which spells the text": sequence("a", special(0), FREE),
    "special and its spelling": either(sequence(TOKEN, "a"), sequence("<t>", "b")),
    "pattern": pattern_of(Two((Several(Chars("a", True), 0, 2), Choice((Chars("b"), Chars("<")))))),
    "pattern without": pattern_of(Several(AnyCharacter, 0, None), ("<t>", "ab")),
    "anything": any_text(),
    "until a text": any_text("<t>"),
    "until a token": any_text(TOKEN),
    "until either": any_text([">b", TOKEN, "t>"]),
    "until, without": any_text("b<t>", exclude=["ab", "<o>"]),
    "until a text, after which another one never counts": any_text("a", exclude=["<<", "a<t>"]),
    "without a token": any_text(exclude=special("<o>")),
    "until a text, with its token elsewhere": sequence(any_text("<t>"), optional(TOKEN), any_text(exclude="<t>")),
    "in order": sequence(FREE, "<t>", AB, any_text(">")),
    "what may be cut in two ways": sequence(pattern_of(Several(Chars("a"), 0, None)), "ab", optional("b")),
    "one of some": either(AB, CALL, sequence(TOKEN, any_text(TOKEN))),
    "optional": sequence(optional(CALL), optional("a")),
    "several": repeat(AB, 1, 3, separator="<t>"),
    "several of nothing": repeat(optional("a"), 2, 4, separator=optional("b")),
    "exactly none": repeat(AB, 0, 0),
    "tag of free text": tag("<t>", any_text(exclude="ab"), ">b"),
    "tag of tokens": tag(TOKEN, any_text(), TOKEN),
    "dispatch": dispatch({"<t>": CALL}),
    "dispatch on a token": dispatch({TOKEN: sequence(TOKEN, AB, special("<o>"))}, exclude="ab"),
    "dispatch, two triggers": dispatch({"<t": tag("<t>", AB, ">"), "b<": tag("b<", AB, "t")}, at_least=2),
    "dispatch, one trigger ends another": dispatch({"t>": sequence("t>", "a"), "<t>": sequence("<t>", "b")}, 1),
    "dispatch once": dispatch({"<t>": CALL, TOKEN: sequence(TOKEN, "b")}, 1, True),
    "dispatch at most once": dispatch({"<t>": CALL}, stop_after_first=True, exclude=[TOKEN, "bb"]),
    "dispatch in a tag": tag("a", dispatch({"<t>": CALL}, stop_after_first=True), "a"),
}


@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("name", LANGUAGES)
def test_masks(name: str, kind: str) -> None:
    compare(LANGUAGES[name], VOCABULARIES[kind], shown=SHOWN if kind == "bytes" else None)


NESTED: dict[str, Any] = {"type": "array", "items": {"$ref": "#"}}
RECORD: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}, "b": {"enum": ["a", "b", None]}},
    "required": ["b"],
    "additionalProperties": False,
}
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"$ref": "#"}}, "b": {"const": "a"}},
    "required": ["b"],
    "additionalProperties": False,
}
VALUES: dict[str, Language] = {
    "constants": json_schema({"enum": ["a", True, None, ["a", "b"], {"a": []}]}),
    "record": json_schema(RECORD),
    "records": json_schema({"type": "array", "items": RECORD, "maxItems": 2}),
    "string": json_schema({"type": "string"}),
    "nested": json_schema(NESTED),
    "tree": json_schema(TREE),
    "anything": json_schema(True),
    "either": json_schema({"anyOf": [{"type": "string"}, {"type": "boolean"}, RECORD]}),
    "between markers": tag("<t>", json_schema(NESTED), "<t>"),
    "anything between markers": tag("<", json_schema(True), ">"),
    "or text": either(json_schema(NESTED), AB, "true"),
    "strings beside text": either(json_schema({"type": "string"}), '"a"b'),
    "several": repeat(json_schema(NESTED), 1, separator=","),
    "one after another": sequence(json_schema(NESTED), json_schema(TREE), optional(json_schema(NESTED))),
    "in free text": dispatch({"<": tag("<", json_schema(NESTED), "t"), TOKEN: sequence(TOKEN, json_schema(TREE))}),
    "then free text": sequence(json_schema(TREE), any_text("<t>")),
    "string, then text": sequence(json_schema({"type": "string"}), FREE),
}


@pytest.mark.parametrize("kind", ["json", "bytes"])
@pytest.mark.parametrize("name", VALUES)
def test_masks_with_values(name: str, kind: str) -> None:
    vocabulary = JSON if kind == "json" else BYTES
    compare(VALUES[name], vocabulary, shown=SHOWN if kind == "bytes" else None, max_depth=2)
