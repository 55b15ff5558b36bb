"""Walks over the tokens of real vocabularies end in documents that `jsonschema` finds valid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, UnsupportedSchema
from tests.json_schema.canonical import canonical
from tests.json_schema.corpus import Case, cases
from tests.json_schema.generated import schemas
from tests.json_schema.judge import judge, parse
from tests.json_schema.test_corpus_accepted import REFUSED
from tests.json_schema.walks import Opinion, walk
from tests.vocabularies import sentencepiece_32k, tekken

VOCABULARIES: dict[str, Callable[[], lk.Vocabulary]] = {"tekken": tekken, "sentencepiece": sentencepiece_32k}
# One in this many cases of the corpus, in turns.
SOME = 15
# Tokens of a walk without a budget, and of one with it.
SOON, BUDGET = 20, 90
QUICK = settings(
    max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, phases=[Phase.generate]
)


def some(name: str) -> list[Case]:
    # A walk may well make host names longer than DNS allows, which is not counted.
    found = [case for case in cases() if case.name not in REFUSED and "host" not in case.name]
    return found[list(VOCABULARIES).index(name) :: SOME]


def check(schema: Any, vocabulary: lk.Vocabulary, seed: int, **options: Any) -> None:
    """Walk freely for a while, and with a budget to the end."""
    validator = judge(schema)
    free = lk.JsonSchema(schema, vocabulary, **options)
    text, _, ended = walk(free, seed, SOON)
    if ended:
        validator.validate(parse(text))
    text, ids, ended = walk(lk.JsonSchema(schema, vocabulary, closing=BUDGET, **options), seed, BUDGET)
    assert ended, text
    validator.validate(parse(text))
    state = free.init_state(lk.Context.of([[]], vocabulary_size=vocabulary.size))
    assert free.is_finished(free.advance(state, torch.tensor([[*ids, vocabulary.eos_ids[0]]]))).all()


@pytest.mark.parametrize(("name", "case"), [(name, case) for name in VOCABULARIES for case in some(name)], ids=str)
def test_of_the_corpus(name: str, case: Case) -> None:
    for seed in range(2):
        check(case.schema, VOCABULARIES[name](), seed)


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("whitespace", ["compact", "spaced", "bounded"])
@QUICK
@given(schemas, st.integers(0, 2**32))
def test_of_generated_schemas(name: str, whitespace: Any, schema: Any, seed: int) -> None:
    try:
        # With a budget, a row cannot remember names or items.
        for closing in (False, BUDGET):
            lk.JsonSchema(schema, VOCABULARIES[name](), whitespace=whitespace, closing=closing)
    except (UnsupportedSchema, ConfigurationError):
        assume(condition=False)
    check(schema, VOCABULARIES[name](), seed, whitespace=whitespace)


def opening(vocabulary: lk.Vocabulary) -> Opinion:
    opens = torch.tensor(
        [5.0 * token.count(b"[") if token and not token.strip(b"[") else 0 for token in vocabulary.tokens]
    )
    return lambda logits, ids: logits + opens


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("depth", [1, 5, 32])
@pytest.mark.parametrize(
    "schema", [{"type": "array", "items": {"$ref": "#"}, "maxItems": 1}, True], ids=["array", "any"]
)
def test_what_is_opened_is_closed(name: str, depth: int, schema: Any) -> None:
    vocabulary = VOCABULARIES[name]()
    constraint = lk.JsonSchema(schema, vocabulary, max_depth=depth, closing=BUDGET)
    text, _, ended = walk(constraint, 1, BUDGET, opening(vocabulary))
    assert ended, text
    parse(text)
    assert len(text) - len(text.lstrip(b"[")) == depth, "so many brackets are legal, and no more"
    # A bracket more, by whatever token.
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    one = vocabulary.tokens.index(b"[")
    state = constraint.advance(constraint.init_state(context), torch.full((1, depth), one))
    masked = constraint.process_logits(state, torch.zeros(1, vocabulary.size), context)[1][0]
    legal = [token for token, logit in zip(vocabulary.tokens, masked.tolist(), strict=True) if logit == 0 and token]
    assert legal
    assert not [token for token in legal if token.startswith((b"[", b"{"))]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_values_are_legal_however_they_are_cut(name: str) -> None:
    """The longest token at each place, and one byte at a time."""
    vocabulary = VOCABULARIES[name]()
    ids = {token: i for i, token in enumerate(vocabulary.tokens) if token}
    case = next(case for case in cases() if case.name.startswith("tool_calls/"))
    constraint = lk.JsonSchema(case.schema, vocabulary)
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    for value in case.valid:
        text = canonical(value, judge(case.schema)).encode()
        for longest in (64, 1):
            run, at = [], 0
            while at < len(text):
                width = next(w for w in range(longest, 0, -1) if text[at : at + w] in ids)
                run.append(ids[text[at : at + width]])
                at += width
            state = constraint.advance(constraint.init_state(context), torch.tensor([[*run, vocabulary.eos_ids[0]]]))
            assert constraint.is_finished(state).all(), text
