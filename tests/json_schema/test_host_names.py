"""Host names: their length and their labels, and those of which an automaton does not tell whether they are valid."""

from __future__ import annotations

import json
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import UnsupportedSchema
from tests.json_schema.acceptance import BYTES, acceptor
from tests.json_schema.judge import judge

LABELS = [
    [63, 63, 63, 61],
    [63, 63, 63, 62],
    [1] * 127,
    [1] * 128,
    [20] * 12,
    [41] * 6,
    [50, 50, 50, 50, 49],
    [60] * 4,
    [60] * 5,
]


@pytest.mark.parametrize(
    "draft", ["http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"]
)
@pytest.mark.parametrize("lengths", LABELS)
def test_a_host_name_has_up_to_253_characters(lengths: list[int], draft: str) -> None:
    text = ".".join("a" * length for length in lengths)
    host: dict[str, Any] = {"$schema": draft, "type": "string", "format": "hostname"}
    assert lk.JsonSchema(host, BYTES).matches(f'"{text}"') == (len(text) <= 253)
    assert lk.JsonSchema({"maxLength": 300, **host}, BYTES).matches(f'"{text}"') == (len(text) <= 253)
    # Where each length would have states of its own, most of them are allowed, and none that is too long.
    is_common = len(text) <= 253 and lengths not in ([1] * 127, [50, 50, 50, 50, 49], [63, 63, 63, 61])
    assert acceptor(host)(f'"{text}"') == is_common
    assert acceptor({**host, "minLength": 20})(f'"{text}"') == is_common
    names = {"$schema": draft.replace("draft-04", "draft-06"), "propertyNames": {"format": "hostname"}}
    assert acceptor(names)(f'{{"{text}":1}}') == is_common
    assert not acceptor({"$schema": draft, "type": "string", "not": {"format": "hostname"}})(f'"{text}"')


# Valid, not valid, and not known: an A-label that is valid, one that is not, and a name that is too long.
HOSTS = ["a.b", "a_b", "xn--4gbwdl", "xn--X", ".".join(["a" * 60] * 5)]
HOST: dict[str, Any] = {"type": "string", "format": "hostname"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "not": {"format": "hostname"}},
        {"not": {"not": HOST}},
        {"oneOf": [HOST, {"type": "string", "pattern": "^x"}]},
        {"oneOf": [HOST, {"type": "string", "format": "ipv4"}, {"const": "xn--X"}]},
        {"type": "string", "if": {"format": "hostname"}, "then": {"maxLength": 3}, "else": {"minLength": 1}},
        {"type": "string", "if": {"not": {"format": "hostname"}}, "then": {"maxLength": 4}},
        {
            "oneOf": [
                {"properties": {"h": HOST}, "required": ["h"]},
                {"properties": {"h": {"pattern": "^x"}}, "required": ["h"]},
            ]
        },
        {"type": "array", "items": {"type": "string"}, "not": {"contains": {"format": "hostname"}}},
        {"type": "array", "items": {"type": "string"}, "contains": {"format": "hostname"}, "maxContains": 1},
        {"type": "object", "not": {"additionalProperties": {"format": "hostname"}}},
        {"type": "object", "additionalProperties": {"oneOf": [HOST, {"type": "string"}]}},
    ],
    ids=str,
)
def test_a_text_in_doubt_is_never_accepted_wrongly(schema: Any) -> None:
    """A text that may be of a format is excluded by the format, and by its negation."""
    accepts, validator = acceptor(schema), judge(schema)
    documents = [json.dumps(host) for host in HOSTS]
    documents += [written.replace("?", document) for written in ('{"h":?}', "[?]", "[?,?]") for document in documents]
    accepted = [document for document in documents if accepts(document)]
    assert accepted
    assert [document for document in accepted if not validator.is_valid(json.loads(document))] == []


def test_a_mailbox_in_doubt_is_not_negated() -> None:
    accepts = acceptor({"type": "string", "not": {"format": "idn-email"}})
    assert [accepts(f'"{text}"') for text in ("ж@Э.рф", "ж@э.рф", "ж")] == [False, False, True]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "not": {"propertyNames": {"format": "hostname"}}},
        {"type": "object", "oneOf": [{"allOf": [{"propertyNames": {"format": "hostname"}}]}, {"required": ["a"]}]},
        {"if": {"propertyNames": {"format": "idn-email"}}, "else": {"required": ["a"]}},
    ],
)
def test_names_in_doubt_are_not_negated(schema: Any) -> None:
    with pytest.raises(UnsupportedSchema, match="a format under its 'propertyNames' is not known of all names"):
        acceptor(schema)
    assert acceptor({"propertyNames": {"format": "hostname"}})('{"a.b":1}')


@pytest.mark.parametrize(
    ("draft", "valid"),
    [
        ("http://json-schema.org/draft-04/schema#", True),
        ("http://json-schema.org/draft-06/schema#", True),
        ("http://json-schema.org/draft-07/schema#", False),
        ("https://json-schema.org/draft/2020-12/schema", False),
        (None, False),
    ],
)
def test_two_hyphens_in_a_host_name_before_draft_7(draft: str | None, valid: bool) -> None:
    accepts = acceptor({"type": "string", "format": "hostname"} | ({"$schema": draft} if draft else {}))
    assert accepts('"ab--cd.example"') == valid
    assert accepts(f'"a.ab--{"c" * 59}"') == valid
    for text in ("www.example.com", "a-b"):
        assert accepts(f'"{text}"')
    assert accepts('"xn--4gbwdl.xn--wgbh1c"') == valid
    for text in ("-a--b", "a--", "not_a_name", "", ".", "a..b", "ab--" + "c" * 60):
        assert not accepts(f'"{text}"')
