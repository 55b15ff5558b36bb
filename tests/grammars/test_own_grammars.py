"""The grammars of `benchmarks/grammars` are right by the judgement of others, and their texts are judged as their files say."""

from __future__ import annotations

import lark
import pytest

import logitkit as lk
from logitkit.grammars.gbnf import read_gbnf
from tests.grammars.own_grammars import OwnGrammar, own_grammars
from tests.grammars.prefix_recogniser import PrefixRecogniser
from tests.grammars.test_gbnf_llama_cpp import llama_accepts

GBNF, LARK = own_grammars("gbnf"), own_grammars("lark")
BYTES = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])


@pytest.mark.parametrize("grammar", GBNF, ids=str)
def test_llama_cpp_judges_the_texts_as_the_files_say(grammar: OwnGrammar) -> None:
    wrong = [text for text, valid in grammar.texts if llama_accepts(grammar.text, text) != valid]
    assert not wrong


@pytest.mark.parametrize("grammar", LARK, ids=str)
def test_lark_judges_the_texts_as_the_files_say(grammar: OwnGrammar) -> None:
    parser = lark.Lark(grammar.text, parser="earley", lexer="dynamic_complete")
    wrong = []
    for text, valid in grammar.texts:
        try:
            parser.parse(text)
            parsed = True
        except lark.exceptions.UnexpectedInput:
            parsed = False
        if parsed != valid:
            wrong.append(text)
    assert not wrong


@pytest.mark.parametrize("grammar", GBNF, ids=str)
def test_the_rules_that_are_read_have_the_texts(grammar: OwnGrammar) -> None:
    rules = read_gbnf(grammar.text)
    assert rules.warnings == ()
    recogniser = PrefixRecogniser(rules)
    short = [(text, valid) for text, valid in grammar.texts if len(text) <= 40 and text.isascii()]
    assert short
    assert [(text, recogniser.accepts(text.encode())) for text, _ in short] == short


@pytest.mark.parametrize("grammar", GBNF + LARK, ids=str)
def test_the_constraint_judges_the_texts_as_the_files_say(grammar: OwnGrammar) -> None:
    constraint = lk.Grammar(grammar.text, BYTES, syntax=grammar.syntax, lexer=grammar.lexer)
    assert [(text, constraint.matches(text)) for text, _ in grammar.texts] == grammar.texts


@pytest.mark.parametrize("grammar", GBNF + LARK, ids=str)
def test_the_grammars_are_deterministic(grammar: OwnGrammar) -> None:
    constraint = lk.Grammar(grammar.text, BYTES, syntax=grammar.syntax, lexer=grammar.lexer, configurations=1)
    assert constraint.report.deterministic
