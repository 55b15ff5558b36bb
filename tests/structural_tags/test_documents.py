"""Documents with structural tags: their older form, JSON text, Python types in them, and equality."""

from __future__ import annotations

import json

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from tests.structural_tags.test_formats import ANY, SIMPLE, const
from tests.structural_tags.tokens import accepts, made, spelled, vocabulary


def test_the_older_form() -> None:
    older = {
        "type": "structural_tag",
        "structures": [
            {"begin": "<f=g>", "schema": {"type": "integer"}, "end": "</f>"},
            {"begin": "<f=h>", "schema": '{"type": "boolean"}', "end": "</f>"},
        ],
        "triggers": ["<f="],
    }
    constraint = lk.from_structural_tag(older, vocabulary())
    for text in ("", "hi <f", "<f=g>1</f>", "a<f=h>true</f>b<f=g>2</f>"):
        assert accepts(constraint, spelled(text)), text
    for text in ("<f=", "<f=i>", "<f=g>true</f>", "<f=g>1"):
        assert not accepts(constraint, spelled(text)), text


def test_json_text_and_equality() -> None:
    text = '{"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"const": 1.0}}}'
    one = lk.from_structural_tag(text, vocabulary())
    other = made({"type": "json_schema", "json_schema": {"const": 1.0}})
    assert one == other
    assert hash(one) == hash(other)
    assert one != made({"type": "json_schema", "json_schema": {"const": 1}}) != made(ANY)
    assert one != lk.from_structural_tag(text, vocabulary(), closing=9)


def test_a_python_type_is_a_schema() -> None:
    """The document keeps the schema of the type, so that it can be sent as JSON."""
    number = {"type": "json_schema", "json_schema": int}
    older = {"structures": [{"begin": "<a>", "schema": int, "end": "</a>"}], "triggers": ["<a"]}
    for document in ({"format": {**SIMPLE, "type": "tag", "content": number}}, older, {"format": number}):
        constraint = lk.from_structural_tag({"type": "structural_tag", **document}, vocabulary())
        text = "1" if document.get("format") is number else "<a>1</a>"
        assert accepts(constraint, spelled(text))
        assert not accepts(constraint, spelled(text.replace("1", '"1"')))
        written = json.loads(json.dumps(lk.to_config(constraint)))
        assert lk.from_config(written, vocabulary()) == constraint
    with pytest.raises(ConfigurationError, match="has no JSON Schema"):
        made({"type": "json_schema", "json_schema": range})


def test_later_changes_of_the_document_do_not_matter() -> None:
    document = {"type": "structural_tag", "format": const("a")}
    constraint = lk.from_structural_tag(document, vocabulary())
    document["format"]["value"] = "b"  # type: ignore[index]
    assert lk.to_config(constraint) == {"structural_tag": {"type": "structural_tag", "format": const("a")}}
