"""Random and mutated configurations: they are made or refused by an error of logitkit's, whose message can be sent as it is."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import jsonschema
import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import logitkit as lk
from logitkit.configuration import CHAIN, KINDS
from logitkit.errors import LogitkitError
from tests.batches import processed
from tests.campaigns.campaign import Campaign, drawn
from tests.configuration.test_round_trip import WRITTEN
from tests.json_schema.generated import schemas
from tests.patterns.strategies import patterns
from tests.patterns.test_acceptance import FRAGMENTS
from tests.pipeline.test_batch import CONFLICTS
from tests.registry import vocabulary

COLUMNS = 72
LIMITS = lk.Limits(states=2_000, work=200_000)
LONGEST_MESSAGE, ESCAPE = 2_000, re.compile(r"\\ud[89a-f][0-9a-f]{2}")
PUBLISHED = jsonschema.Draft202012Validator(lk.config_schema())
VALID: tuple[Mapping[str, Any], ...] = (*(lk.to_config(row.processor) for row in WRITTEN), *CONFLICTS)

# JSON can say all of these; a lone surrogate is written as an escape.
ODD_TEXTS = (
    "",
    "\ud800",
    "a\udfff",
    "\x00",
    "é\n",
    "a" * 3_000,
    "\ud800" * 3_000,
    "(a",
    "[",
    "{{",
    "#/",
    "</think>",
    "hex",
)
ODD_NUMBERS = (0, -1, 3, 71, 72, 2**31, 2**63, 10**30, 10**4000, 0.0, -0.0, 1e-320, 1e308, 1e999, -1e999, float("nan"))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(ODD_NUMBERS),
    st.integers(-5, 100),
    st.floats(-3, 3),
    st.sampled_from(ODD_TEXTS),
    st.text(max_size=4),
    patterns(),
    st.lists(st.sampled_from(FRAGMENTS), max_size=8).map("".join),
)
KEYS = tuple(
    dict.fromkeys(
        (*KINDS, CHAIN, *(name for kind in KINDS.values() for name in kind.parameters), "hex", "type", "$ref", "\ud800")
    )
)
SCHEMA_KEYWORDS = (
    *("type", "enum", "const", "properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
    *("items", "prefixItems", "contains", "minItems", "maxItems", "minimum", "multipleOf", "maxLength", "pattern"),
    *(
        "format",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "$ref",
        "$defs",
        "$schema",
        "dependentSchemas",
        "uniqueItems",
    ),
)
junk = st.recursive(
    scalars | schemas,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@st.composite
def deep(draw: DrawFn) -> Any:
    """A value inside very many lists or objects."""
    found, key = draw(scalars), draw(st.sampled_from((None, "chain", "items", "not", "first")))
    for _ in range(draw(st.sampled_from((20, 200, 800)))):
        found = [found] if key is None else {key: [found] if key == "chain" else found}
    return found


@st.composite
def mutated(draw: DrawFn) -> Any:
    """A valid configuration in which up to three values are others."""
    found: Any = draw(st.sampled_from(VALID))
    if draw(st.integers(0, 3)) == 0:
        found = {CHAIN: [found, draw(st.sampled_from(VALID))]}
    elif draw(st.integers(0, 3)) == 0:
        found = {**found, **draw(st.sampled_from(VALID))}
    for _ in range(draw(st.integers(0, 3))):
        found = changed(draw, found)
    return found


def changed(draw: DrawFn, value: Any) -> Any:
    """Return a copy of a value with one change at a random place."""
    how = draw(st.sampled_from(("inside", "inside", "inside", "more", "fewer", "renamed", "here")))
    if isinstance(value, dict) and value and how != "here":
        at = draw(st.sampled_from(sorted(value)))
        if how == "inside":
            return {**value, at: changed(draw, value[at])}
        if how == "more":
            return {**value, draw(st.sampled_from(KEYS)): draw(junk)}
        return {(f"{k}s" if k == at else k): v for k, v in value.items() if how == "renamed" or k != at}
    if isinstance(value, list) and value and how != "here":
        place = draw(st.integers(0, len(value) - 1))
        if how == "more":
            return [*value, *[value[place]] * draw(st.sampled_from((1, 3, 100)))]
        return [*value[:place], changed(draw, value[place]), *value[place + 1 :]]
    return draw(junk | deep())


@st.composite
def mutated_schemas(draw: DrawFn) -> Any:
    return changed(draw, draw(schemas))


fragments = st.lists(st.sampled_from(FRAGMENTS), max_size=8).map("".join)
texts = st.lists(st.text("ab1é \n", max_size=4) | st.sampled_from(ODD_TEXTS), max_size=4)
schema = schemas | mutated_schemas() | st.dictionaries(st.sampled_from(SCHEMA_KEYWORDS), junk, max_size=3)
# Common requests, with values that are mostly of the right type.
plausible = st.fixed_dictionaries(
    {},
    optional={
        "regex": patterns() | fragments,
        "json_schema": schema | schema.map(json.dumps),
        "choice": texts,
        "banned_strings": texts,
        "stop_strings": texts,
        "forced_prefix": st.sampled_from(ODD_TEXTS) | st.text("ab1", max_size=3),
        "top_p": st.floats(-0.1, 1.1),
        "temperature": st.floats(-0.1, 3),
    },
)
any_of = st.one_of(
    mutated(), mutated(), plausible, st.dictionaries(st.sampled_from(tuple(KINDS)), junk, max_size=3), junk
)


@st.composite
def cases(draw: DrawFn) -> str:
    """JSON texts, as a server gets them."""
    return json.dumps(draw(any_of))


def check(case: str, tried: Counter[str]) -> None:
    config = json.loads(case)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = lk.from_config(config, vocabulary(), limits=LIMITS)
    except LogitkitError as error:
        message = str(error)
        message.encode()
        # A lone surrogate is written as an escape of six characters, and counts as one.
        assert len(ESCAPE.sub("?", message)) <= LONGEST_MESSAGE, (
            f"the message has {len(message)} characters: {message[:200]}"
        )
        tried[f"refused by {type(error).__name__}"] += 1
        return
    tried["made"] += 1
    assert PUBLISHED.is_valid(config), "what is made is not allowed by the published schema"
    written = json.loads(json.dumps(lk.to_config(made)))
    assert lk.to_config(lk.from_config(written, vocabulary(), limits=LIMITS)) == written, (
        "its JSON form makes another one"
    )
    context = lk.Context.of([[3, 4], [5]], COLUMNS, max_length=64)
    state = made.advance(made.init_state(context), torch.tensor([5, 6]))
    logits = processed(made, state, torch.zeros(2, COLUMNS), context.at(context.lengths + 1))[1]
    assert not logits.isnan().any(), "a logit is NaN"
    tried["made, run for a step"] += 1


CAMPAIGN = Campaign("configurations", "random and mutated configurations: made or refused", drawn(cases(), 100, check))
