"""Random grammars in Lark's syntax with templates, against Lark's Earley parser."""

from __future__ import annotations

from collections import Counter

from logitkit.errors import GrammarError
from logitkit.grammars.lark import read_lark
from tests.campaigns.campaign import Campaign, drawn
from tests.grammars.recogniser import accepts
from tests.grammars.template_cases import TemplateCase, lark_reads, template_cases


def check(case: TemplateCase, tried: Counter[str]) -> None:
    expected = lark_reads(case.grammar, case.texts)
    try:
        rules = read_lark(case.grammar, lexer="dynamic")
    except GrammarError as error:
        if "no finite text" not in error.reason and expected is not None:
            raise
        tried["grammars refused"] += 1
        return
    if expected is None:
        tried["grammars that Lark refuses"] += 1
        return
    tried["grammars"] += 1
    for text, valid in zip(case.texts, expected, strict=True):
        tried["texts"] += 1
        tried["texts accepted"] += valid
        assert accepts(rules, text) == valid, f"{text!r} {'is' if valid else 'is not'} a text"


CAMPAIGN = Campaign(
    "templates",
    "random grammars in Lark's syntax with templates, with Lark's Earley parser",
    drawn(template_cases(), 60, check),
)
