"""Attributes of rules in GBNF, against XGrammar and all short texts."""

from __future__ import annotations

import warnings
from itertools import product

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.grammars.gbnf import read_gbnf
from tests.grammars.recogniser import accepts
from tests.grammars.test_limited_rules import BYTES, compare_with_xgrammar

# Each grammar with the characters of its texts: all texts of up to five of them are tried.
GRAMMARS = {
    'root ::= "<" r ">" s\nr[lazy] ::= [ab]+\ns ::= [ab]*': "<>ab",
    'root ::= r "b"\nr[lazy] ::= ("ab" | "abb" | "ba")': "ab",
    'root ::= r r ";"\nr[lazy] ::= letter* "b"\nletter ::= [ab]': "ab;",
    'root ::= r ">"\nr[lazy] ::= "a"*': "a>",
    'root ::= r ">"\nr[max_chars=2] ::= [ab]*': "ab>",
    'root ::= (r ";")+\nr[max_chars=1] ::= ("a" | "b")*': "ab;",
    'root ::= "<" r ">"\nr[max_chars=3] ::= "a" s ";"?\ns[max_chars=1] ::= [b]+': "<>ab;",
    'root ::= "<" r ">"\nr[max_chars=3] ::= s s\ns[lazy] ::= [ab]+': "<>ab",
    'root ::= r s\nr[capture, lazy, max_chars=3] ::= [ab] [ab;]*\ns[capture="x"] ::= "a"*': "ab;",
}


@pytest.mark.parametrize("text", GRAMMARS)
def test_the_texts_are_those_of_xgrammar(text: str) -> None:
    xgrammar = pytest.importorskip("xgrammar", reason="needs XGrammar: pip install -c constraints.txt xgrammar")
    testing = pytest.importorskip("xgrammar.testing")
    texts = ["".join(one) for length in range(6) for one in product(GRAMMARS[text], repeat=length)]
    theirs, mine = xgrammar.Grammar.from_ebnf(text), read_gbnf(text)
    judged = {one: bool(testing._is_grammar_accept_string(theirs, one)) for one in texts}
    assert {one: accepts(mine, one) for one in texts} == judged
    assert any(judged.values())


@pytest.mark.parametrize("most", [1, 2, 4])
@pytest.mark.parametrize(
    "text",
    [
        'root ::= "x" r "Y"\nr[max_tokens={}] ::= [ab]+',
        'root ::= ("x" r "Y")+\nr[max_tokens={}] ::= sub*\nsub ::= "a" | "b"',
        'root ::= "x" root "Y" | r\nr[max_tokens={}] ::= [ab]+',
    ],
)
def test_the_masks_are_those_of_xgrammar(text: str, most: int) -> None:
    compare_with_xgrammar(text.format(most), "gbnf", most)


def test_captures() -> None:
    text = 'root ::= item ("," item)* ";"?\nitem[capture="number"] ::= "x" inner "!"\ninner[capture] ::= [0-9]+ | <t>'
    vocabulary = lk.Vocabulary(
        [*(bytes([byte]) for byte in range(256)), None, None], eos_ids=[257], special={"<t>": 256}
    )
    grammar = lk.Grammar(text, vocabulary)
    assert grammar.captures("x1!,x22!;") == {"number": ["x1!", "x22!"], "inner": ["1", "22"]}
    assert grammar.captures([*b"x", 256, *b"!"]) == {"number": ["x<t>!"], "inner": ["<t>"]}
    lazy = lk.Grammar(
        'root ::= a b\na[capture, lazy] ::= letter+\nb[capture="rest"] ::= letter*\nletter ::= [ab]', vocabulary
    )
    assert lazy.captures("abb") == {"a": ["a"], "rest": ["bb"]}


def test_rules_that_only_a_pattern_calls_are_used() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grammar = lk.Grammar('root ::= a "!"\na[max_chars=2] ::= letter+\nletter ::= [ab]', BYTES)
    assert [grammar.matches(text) for text in ("ab!", "aba!")] == [True, False]


def test_attributes_of_a_rule_that_a_rule_with_a_limit_calls() -> None:
    text = 'root ::= "<" r ">"\nr[max_tokens=4] ::= "a" s* "c"\ns[max_chars=1] ::= t+\nt[max_tokens=0] ::= "b"'
    grammar = lk.Grammar(text, BYTES)
    assert [grammar.matches(text) for text in ("<ac>", "<abc>")] == [True, False]


def test_a_long_chain_of_calls_is_one_pattern() -> None:
    rules = [f'r{i} ::= "a" r{i + 1}' for i in range(1, 400)]
    grammar = lk.Grammar("\n".join(['root ::= r0 "."', "r0[max_chars=500] ::= r1", *rules, 'r400 ::= "b"']), BYTES)
    assert [grammar.matches("a" * count + "b.") for count in (398, 399)] == [False, True]


def test_a_limit_of_no_tokens_is_the_empty_text() -> None:
    grammar = lk.Grammar('root ::= "a" r "b"\nr[max_tokens=0] ::= [a-z]', BYTES)
    assert [grammar.matches(text) for text in ("ab", "azb")] == [True, False]


@pytest.mark.parametrize(
    "text",
    [
        'root ::= r "</t>"\nr[max_tokens=2] ::= .*',
        # The rule has all texts of what stands beside it, so both read the same.
        'root ::= ";" ";"* r? "x"\nr[max_tokens=1] ::= [ab;]+',
        'root ::= n r? "x"\nn ::= ";" n | ";"\nr[max_tokens=1] ::= [ab;]+',
    ],
)
def test_what_stands_beside_a_limit_must_not_be_text_of_the_rule(text: str) -> None:
    with pytest.raises(ConfigurationError, match="may stand in the same place"):
        lk.Grammar(text, BYTES)
