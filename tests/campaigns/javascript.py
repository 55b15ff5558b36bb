"""Random ECMA-262 patterns with surrogates, against `re` over UTF-16 code units, and against node where it is installed."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import logitkit as lk
from logitkit.errors import ConfigurationError, UnsupportedSchema
from tests.campaigns.campaign import Campaign, drawn
from tests.json_schema.acceptance import BYTES
from tests.json_schema.javascript import NODE, PATTERNS, TEXTS, found_by_node, found_by_re, is_without_the_flag
from tests.json_schema.judge import parse
from tests.json_schema.writing import TooLong, Writer

WRITTEN = 3


@dataclass(frozen=True)
class Case:
    """A pattern, texts, and the seed of the texts that are written."""

    pattern: str
    texts: tuple[str, ...]
    seed: int


@st.composite
def cases(draw: DrawFn) -> Case:
    texts = draw(st.lists(st.text("ab\ud7ff\uffff🌀🌁😀𐀀", max_size=5), max_size=8))
    return Case(draw(PATTERNS), (*TEXTS, *texts), draw(st.integers(0, 2**32)))


def check(case: Case, tried: Counter[str]) -> None:
    expected = [found_by_re(case.pattern, text) for text in case.texts]
    # To start node takes a while.
    if NODE is not None and case.seed % 8 == 0:
        assert found_by_node([(case.pattern, list(case.texts))]) == [expected], "the judges differ"
        tried["patterns judged by node too"] += 1
    try:
        constraint = lk.JsonSchema({"type": "string", "pattern": case.pattern}, BYTES)
    except UnsupportedSchema:
        tried["patterns refused as too large"] += 1
        return
    except ConfigurationError as error:
        if "no value satisfies" not in str(error):
            raise
        assert not any(expected), "a pattern refused as one that nothing matches has a match"
        tried["patterns without a match"] += 1
        return
    tried["patterns over code units" if is_without_the_flag(case.pattern) else "patterns over characters"] += 1
    dfa = constraint.nested_dfa()
    for text, matches in zip(case.texts, expected, strict=True):
        spelled = '"' + text.replace("\n", "\\n") + '"'
        assert dfa.accepts(spelled.encode()) == matches, f"{text!r} {'matches' if matches else 'does not match'}"
        tried["texts that match" if matches else "texts that do not match"] += 1
    rng, writer = random.Random(case.seed), Writer(dfa)
    for _ in range(WRITTEN):
        try:
            written = writer.write(rng)
        except TooLong:
            tried["texts given up, since their writer found no way to an end"] += 1
            continue
        assert found_by_re(case.pattern, parse(written)), f"{written.decode()} is written"
        tried["texts written, found to match"] += 1


CAMPAIGN = Campaign(
    "javascript",
    "random patterns of JSON Schema with halves of surrogate pairs, with `re` over code units, and node if it is there",
    drawn(cases(), 60, check),
)
