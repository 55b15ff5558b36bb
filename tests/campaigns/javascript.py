"""Random ECMA-262 patterns with surrogates, against `re` over UTF-16 code units, and against node where it is installed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.campaigns.campaign import Campaign, drawn
from tests.campaigns.json_texts import compiled, written
from tests.json_schema.acceptance import Accepted
from tests.json_schema.javascript import NODE, PATTERNS, TEXTS, found_by_node, found_by_re, is_without_the_flag
from tests.json_schema.judge import parse

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
    constraint = compiled({"type": "string", "pattern": case.pattern}, "patterns", lambda: any(expected), tried)
    if constraint is None:
        return
    tried["patterns over code units" if is_without_the_flag(case.pattern) else "patterns over characters"] += 1
    dfa = Accepted(constraint)
    for text, matches in zip(case.texts, expected, strict=True):
        spelled = '"' + text.replace("\n", "\\n") + '"'
        assert dfa.accepts(spelled.encode()) == matches, f"{text!r} {'matches' if matches else 'does not match'}"
        tried["texts that match" if matches else "texts that do not match"] += 1
    for found in written(dfa, case.seed, WRITTEN, tried):
        assert found_by_re(case.pattern, parse(found)), f"{found.decode()} is written"
        tried["texts written, found to match"] += 1


CAMPAIGN = Campaign(
    "javascript",
    "random patterns of JSON Schema with halves of surrogate pairs, with `re` over code units, and node if it is there",
    drawn(cases(), 60, check),
)
