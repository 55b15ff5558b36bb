"""`closing`: however little a model wants to end, the text is whole within the budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.constraints.json_schema import SCHEMA_LIMITS
from logitkit.errors import ConfigurationError
from logitkit.json_schema.string_set import StringSet
from tests.in_step import masks_in_step
from tests.json_schema.acceptance import BYTES
from tests.json_schema.judge import judge, parse
from tests.json_schema.walks import Opinion, no_opinion, walk

RECORD = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string", "minLength": 2},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    },
    "required": ["id", "tags"],
    "additionalProperties": False,
}
TREE = {
    "type": "object",
    "properties": {"v": {"enum": ["long enough", "x"]}, "in": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["v"],
    "additionalProperties": False,
}
SCHEMAS: dict[str, Any] = {
    "anything": True,
    "record": RECORD,
    "tree": TREE,
    "strings": {"type": "array", "items": {"type": "string"}},
    "choice": {"enum": ["a long word", "b", {"c": [1, 2, 3]}]},
    # An array that is shorter has to hold something else than one that is longer.
    "two ways": {
        "anyOf": [{"type": "array", "maxItems": 1, "items": {"const": "abcdef"}}, {"type": "array", "minItems": 2}]
    },
    # Strings whose characters are counted.
    "counted": {
        "type": "object",
        "properties": {
            "a": {"type": "string", "minLength": 3, "maxLength": 70},
            "b": {"type": "array", "items": {"type": "string", "pattern": "^([a-c]|é)*x$", "maxLength": 64}},
            "c": {"type": "string", "minLength": 64, "maxLength": 65},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    },
}
# A few tokens of several bytes, among them such as close and open at once.
TOKENS = [b'"}', b"[[", b"]]", b"],", b'":', b'{"', b"{}", b"[]", b"null", b"abc", b'"]}', b'":[']
MERGED = lk.Vocabulary([*[bytes([b]) for b in range(256)], *TOKENS, None], eos_ids=[256 + len(TOKENS)])
VOCABULARIES = {"bytes": BYTES, "merged": MERGED}


def needed(schema: Any, vocabulary: lk.Vocabulary, **options: Any) -> int:
    """The smallest budget that is not refused."""
    try:
        lk.JsonSchema(schema, vocabulary, closing=1, **options)
    except ConfigurationError as error:
        return int(str(error).split()[-1])
    return 1


def opening(vocabulary: lk.Vocabulary) -> Opinion:
    """Brackets and quotation marks are always wanted, and the end is never."""
    opens = torch.tensor([5.0 * sum(token.count(c) for c in b'[{"') if token else -5 for token in vocabulary.tokens])
    return lambda logits, ids: logits + opens


def endless(vocabulary: lk.Vocabulary) -> Opinion:
    """Brackets that close and quotation marks are never wanted, nor is the end."""
    ends = torch.tensor([-5.0 * any(c in b']}"' for c in token) if token else -9 for token in vocabulary.tokens])
    return lambda logits, ids: logits + ends


@pytest.mark.parametrize("whitespace", ["compact", "bounded"])
@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("name", SCHEMAS)
def test_the_text_is_whole_within_the_budget(name: str, kind: str, whitespace: Any) -> None:
    vocabulary, schema = VOCABULARIES[kind], SCHEMAS[name]
    validator = judge(schema)
    least = needed(schema, vocabulary, whitespace=whitespace)
    lengths = set()
    for budget in (least, least + 1, least + 2, least + 5, 40):
        constraint = lk.JsonSchema(schema, vocabulary, closing=budget, whitespace=whitespace)
        for seed, opinion in enumerate([no_opinion, opening(vocabulary), endless(vocabulary)]):
            text, ids, ended = walk(constraint, seed, budget, opinion)
            assert ended, (budget, text)
            validator.validate(parse(text))
            lengths.add(len(ids))
    if name != "choice":
        assert max(lengths) > 10, "a budget should be used"


COUNTED: dict[str, Any] = {
    "in an object": SCHEMAS["counted"],
    "in an array": {"type": "array", "items": {"type": "string", "minLength": 2, "maxLength": 64}, "minItems": 2},
    "long enough": {"type": "string", "minLength": 20, "maxLength": 64},
    "just so long": {"type": "string", "pattern": "^[a-z]*$", "minLength": 64, "maxLength": 64},
    "with an end": {"type": "string", "pattern": "^[a-z]{2,}(abc)?!$", "maxLength": 64},
}


@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("name", COUNTED)
def test_counted_strings_close_as_those_with_states_for_each_length(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocabulary, schema = VOCABULARIES[kind], COUNTED[name]
    least = needed(schema, vocabulary)
    budgets = (least, least + 1, least + 7, 90)
    counted = [lk.JsonSchema(schema, vocabulary, closing=budget) for budget in budgets]
    monkeypatch.setattr(StringSet, "counts", lambda *_: False)
    # Other limits, so that it is compiled again.
    limits = replace(SCHEMA_LIMITS, work=SCHEMA_LIMITS.work + 1)
    assert needed(schema, vocabulary, limits=limits) == least
    for budget, one in zip(budgets, counted, strict=True):
        other = lk.JsonSchema(schema, vocabulary, closing=budget, limits=limits)
        assert one.automaton.counting is not None
        assert other.automaton.counting is None
        for seed in range(8):
            for legal, exact in masks_in_step(one, other, seed, budget):
                assert torch.equal(legal, exact)


@pytest.mark.parametrize("name", SCHEMAS)
def test_without_it_the_budget_does_not_do(name: str) -> None:
    """Or the test above would show nothing."""
    ends = [walk(lk.JsonSchema(SCHEMAS[name], BYTES), seed, 40, endless(BYTES))[2] for seed in range(3)]
    assert all(ends) == (name == "choice")


@pytest.mark.parametrize(("kind", "least"), [("bytes", 13), ("merged", 6)])
def test_a_budget_that_no_text_fits_is_refused(kind: str, least: int) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"const": ["abc"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    whole = b'{"a":["abc"]}'
    assert needed(schema, VOCABULARIES[kind]) == least
    message = (
        rf"^closing is {least - 1}, but the shortest text of this schema takes {least} tokens; give at least {least}"
    )
    with pytest.raises(ConfigurationError, match=message):
        lk.JsonSchema(schema, VOCABULARIES[kind], closing=least - 1)
    text, ids, ended = walk(lk.JsonSchema(schema, VOCABULARIES[kind], closing=least), 0, least)
    assert (text, len(ids), ended) == (whole, least, True)


def test_the_room_of_the_context_is_the_budget() -> None:
    constraint = lk.JsonSchema({"type": "array", "items": {"type": "integer"}}, BYTES, closing=True)
    context = lk.Context.of([[1], [1, 2, 3], [1, 2, 3, 4, 5]], vocabulary_size=BYTES.size, max_length=6)
    state = constraint.init_state(context)
    # Five tokens, three, and one, which is less than "[]" takes.
    texts = [b""] * 3
    for _ in range(6):
        logits = torch.zeros(3, BYTES.size)
        logits[:, ord("]")] = -1
        logits[:, ord("7")] = 1
        logits[:, 256] = -2
        tokens = constraint.process_logits(state, logits, context)[1].argmax(1)
        texts = [text + (bytes([t]) if t < 256 else b"") for text, t in zip(texts, tokens.tolist(), strict=True)]
        state = constraint.advance(state, tokens)
    assert texts == [b"[777]", b"[7]", b"[]"]
    assert constraint.is_finished(state).all()


def test_a_context_without_an_end_has_no_budget() -> None:
    constraint = lk.JsonSchema(True, BYTES, closing=True)
    context = lk.Context.of([[1]], vocabulary_size=BYTES.size)
    left: Tensor = constraint.init_state(context).left
    assert left.tolist() == [-1]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["array", "null"], "contains": {"type": "array", "minItems": 1}},
        {"type": "array", "contains": {"type": "object", "required": ["a"]}},
    ],
    ids=str,
)
def test_what_has_no_bound_is_refused(schema: dict[str, Any]) -> None:
    """Rather than left out: without a budget such arrays are allowed."""
    with pytest.raises(ConfigurationError, match="leave out 'closing'"):
        lk.JsonSchema(schema, BYTES, closing=60)
    assert lk.JsonSchema(schema, BYTES).automaton.states > 2


def test_a_token_that_is_too_long_at_some_counts_is_not_counted_on() -> None:
    # At most counts "abc" is the shortest way to the end; after 62 characters only "yz" is left, which takes two tokens.
    vocabulary = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), b"abc", None], eos_ids=[257])
    schema = {"type": "string", "pattern": "^x*(abc|yz)$", "maxLength": 64}
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    for budget in (63, 64, 65, 66, 80):
        constraint = lk.JsonSchema(schema, vocabulary, closing=budget)
        assert constraint.automaton.counting is not None
        state, ids = constraint.init_state(context), list[int]()
        while not ids or ids[-1] != 257:
            legal = constraint.allowed_tokens(state)[0]
            # As many characters as possible.
            ids.append(ord("x") if legal[ord("x")] else int(legal.nonzero()[0]))
            state = constraint.advance(state, torch.tensor([ids[-1]]))
        # A row for which nothing is legal would end in the middle of the string.
        assert constraint.matches(b"".join(vocabulary.tokens[i] or b"" for i in ids).decode())
        assert len(ids) <= budget + 1
