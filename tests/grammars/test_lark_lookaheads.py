"""Lookaheads at the beginning of terminals, against Python's `re`."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import lark
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.compiler.grammars.dfa import pushdown_dfa
from logitkit.compiler.grammars.rules import Rules
from logitkit.errors import GrammarError
from logitkit.grammars.lark import LarkLexer, read_lark
from logitkit.limits import Limits
from tests.examples import examples
from tests.grammars.lark_lexers import splitter
from tests.grammars.lookahead_cases import LookaheadCase, lookahead_cases
from tests.grammars.pushdowns import accepts as dfa_accepts
from tests.grammars.recogniser import accepts


@settings(max_examples=examples(20), deadline=None)
@given(lookahead_cases(), st.sampled_from(("longest", "contextual", "dynamic")))
def test_an_accepted_text_is_one_that_re_reads(case: LookaheadCase, lexer: LarkLexer) -> None:
    found = splitter(case.grammar, lexer)
    if found is None:
        return
    for text in case.texts():
        if lexer == "dynamic":
            assert found(text) == case.reads(text, lexer), text
        else:
            assert not found(text) or case.reads(text, lexer), text


# After each terminal, there may be some of the letters a, b and x, or a bracket and anything.
EXACT = [
    r"(?!ab|ba|x)[abx]+",
    r"(?!(ab|ba)\b)[abx]+",
    r"(?!ab\b)[abx]+",
    r"(?!b*a)[ab]+",
    r"(?=[ab]*x)[abx]+",
    r"(?=.b)(?!ab)[abx]+",
    r"(?!abx)a[bx]*",
    r"a(?!bb|x)[abx]+",
    r"[ab](?!bx)[abx]*",
    r"(?!aba)[ab]{2}",
]


@pytest.mark.parametrize("terminal", EXACT)
@pytest.mark.parametrize("lexer", ["longest", "contextual"])
def test_a_text_is_accepted_exactly_if_re_reads_it(terminal: str, lexer: LarkLexer) -> None:
    case = LookaheadCase(terminal, r"[(].*|[abx]+")
    found = splitter(case.grammar, lexer)
    assert found is not None
    verdicts = {text: case.reads(text, lexer) for text in case.texts()}
    assert {text: found(text) for text in verdicts} == verdicts
    assert {*verdicts.values()} == {True, False}


@pytest.mark.parametrize("lexer", ["longest", "contextual", "dynamic"])
def test_a_name_is_not_one_of_some_words(lexer: LarkLexer) -> None:
    rules = read_lark('start: A ["!"]\nA: /(?!true|false|null)[a-z]+/', lexer=lexer)
    texts = ["tru", "tru!", "true", "truest", "nul", "null!", "untrue", "t"]
    assert [text for text in texts if accepts(rules, text)] == ["tru", "tru!", "nul", "untrue", "t"]


REFUSED = {
    r"(?!.*--)[a-z-]+": "text after it that has no limit",
    r"(?!.*b)a+": "text after it that has no limit",
    r"(?=ab)a": "must be followed by the rest of what its lookahead looks for",
    r"(?=[a-z]{3}$)[a-z]+": "more than one character after it",
    r"[a-z]+(?=;)": "must be followed by a character",
    r"[a-z]+(?!true)": "more than one character after it",
}


@pytest.mark.parametrize("terminal", REFUSED)
def test_an_error_names_intersection_and_complement(terminal: str) -> None:
    with pytest.raises(GrammarError, match="write a condition on its own text with & and ~") as caught:
        read_lark(f"start: A\nA: /{terminal}/")
    assert REFUSED[terminal] in caught.value.reason
    assert (caught.value.line, caught.value.column) == (2, 1)


@pytest.mark.parametrize("terminal", ["(?!)a", "(?!a)a", "(?!a?)a", "(?=b)a"])
def test_a_lookahead_that_leaves_no_text_is_an_error(terminal: str) -> None:
    if terminal == "(?!)a":
        assert accepts(read_lark("start: A\nA: /(?!b(?!c))a/"), "a")
    with pytest.raises(GrammarError, match="has no text"):
        read_lark(f"start: A\nA: /{terminal}/")


# The first one is that of regular expressions in Lark's own grammar.
AMBIGUOUS = [r"\/(?!\/)(\\\/|\\\\|[^\/])*?\/[imslux]*", r"(?!ab)(a|ab|[abx])*?x", r"a(?!b)(a|b|ab)*?x"]


@pytest.mark.parametrize("terminal", AMBIGUOUS)
def test_a_lookahead_before_an_ambiguous_lazy_part_takes_little_work(terminal: str) -> None:
    # As a part of the expression, the lookahead of the first one took ten million steps.
    rules = read_lark(f"start: A\nA: /{terminal}/", lexer="dynamic", limits=Limits(work=200_000))
    texts = [
        "".join(text) for length in range(7) for text in product(r"a/\\i" if "/" in terminal else "abx", repeat=length)
    ]
    for text in texts:
        # A search finds the shortest text from the first place.
        found = re.match(terminal, text)
        assert accepts(rules, text) == (found is not None and found.end() == len(text)), text


def test_the_grammar_of_lark_itself_has_the_texts_that_lark_reads() -> None:
    grammar = (Path(lark.__file__).parent / "grammars" / "lark.lark").read_text("utf-8")
    rules = read_lark(grammar)
    dfa = pushdown_dfa(Rules(tuple([rule.body for rule in rules.rules]), rules.start), Limits())
    parser = lark.Lark(grammar, parser="lalr")
    # The newline after a comment cannot be part of the arguments of a template, and a `/` does not begin with `//`.
    texts = [grammar, "a: b", 'a: "b"i | C~2..3 -> d', "A: /x/i\n\n%ignore A\n", "a: (b # c\n | d)", "a{b, c}: d{b, c}"]
    texts += [
        "a: b # c",
        "a: b{c # d\n}",
        "a: b{c # d",
        "a: ",
        "a",
        "a: //",
        "a: /b//c/",
        "a: (b",
        "%import a.b -> C",
        "%declare A",
    ]
    verdicts = {}
    for text in texts:
        try:
            parser.parse(text)
            verdicts[text] = True
        except lark.exceptions.UnexpectedInput:
            verdicts[text] = False
    assert {text: dfa_accepts(dfa, text.encode()) for text in texts} == verdicts
    assert {*verdicts.values()} == {True, False}
