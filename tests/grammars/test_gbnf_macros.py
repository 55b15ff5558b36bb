"""XGrammar's macros and lookaheads in GBNF: the texts are those of XGrammar, and tokens are as in the notation of llama.cpp."""

from __future__ import annotations

import warnings
from itertools import product

import pytest
import torch
import xgrammar
from hypothesis import given
from hypothesis import strategies as st
from xgrammar.testing import _is_grammar_accept_string as is_accepted

import logitkit as lk
from logitkit.errors import GrammarError
from logitkit.grammars.gbnf import read_gbnf

BYTES = [bytes([byte]) for byte in range(256)]
VOCABULARY = lk.Vocabulary(
    [*BYTES, b"ab", None, None, None],
    eos_ids=[257],
    special={"</s>": 257, "<tool>": 258, "<end>": 259},
)
EOS = 257

TEXTS = {
    'root ::= Regex("[a-c]{1,2}")': ("", "a", "bc", "abc", "d"),
    r'root ::= Regex("\\w+\\s\\d")': ("a 1", "é 1", "a\u00a01", "a ٣", "_\n0"),
    'root ::= "x" Regex("a.b") "y"': ("xa\nby", "xazby", "xaby"),
    'root ::= Regex("a.b", flags="")': ("a\nb", "azb"),
    'root ::= Regex("a.b", flags="is")': ("A\nB", "azb"),
    'root ::= Regex("k|é", flags="i")': ("K", "\u212a", "É", "é"),
    'root ::= Regex("(?i)ab|c")': ("AB", "C", "aB"),
    'root ::= Regex("^a|b$")': ("a", "b", "ab"),
    'root ::= Regex("[^a]+", json_string=true)': ("b", 'b"', "\\", "\n", "é", "\x7f"),
    'root ::= (Regex("a+") "b"){2}': ("abab", "aabab", "ab", "ababab"),
    'root ::= Substring("ab", "c", "ab", "d")': ("", "ab", "b", "abc", "cabd", "abd", "cab"),
    "root ::= Substring()": ("", "a"),
    'root ::= TagDispatch(("<a>", x)) "!"\nx ::= "1" | "2" x': (
        "!",
        "a!",
        "<a>1!",
        "<a>221!b<a>1!",
        "<a>!",
        "<a!",
        "<a><a>1!",
    ),
    'root ::= TagDispatch(("ab", x), ("b", y), ("b", x))\nx ::= "1"\ny ::= "2"': (
        "ab1",
        "ab2",
        "b2",
        "b1",
        "ab1b2a",
        "b",
    ),
    'root ::= TagDispatch(("ab", x), loop_after_dispatch=false) "."\nx ::= "1"': (
        "ab1.",
        "ab1a.",
        "z.",
        ".",
        "ab.",
        "a.",
    ),
    'root ::= TagDispatch(("ab", x), excludes=("cd", "e",)) "cd"\nx ::= "1"': ("cd", "ab1cd", "acd", "ccd", "cdcd"),
    "root ::= TagDispatch()": ("", "any\ntext é"),
    'root ::= a "c" (="e")\na ::= "b" | "d" (="c")': ("bc", "dc", "bd"),
    r'root ::= "\/" ("a" | "b"){1, -1}': ("/", "/a", "/abba", "/c"),
    'root ::= Regex( "a" , # one\n flags = "i" )': ("a", "A", "b"),
}


@pytest.mark.parametrize("grammar", TEXTS)
def test_texts_are_those_of_xgrammar(grammar: str) -> None:
    ours, theirs = lk.Grammar(grammar, VOCABULARY, syntax="gbnf"), xgrammar.Grammar.from_ebnf(grammar)
    found = [ours.matches(text) for text in TEXTS[grammar]]
    assert found == [is_accepted(theirs, text) for text in TEXTS[grammar]]
    assert any(found)


tags = st.lists(st.text("ab<", min_size=1, max_size=3), min_size=1, max_size=3)


@given(
    tags, st.lists(st.text("ab<", min_size=1, max_size=2), max_size=2), st.booleans(), st.sampled_from(["", "a", "."])
)
def test_any_tag_dispatch_has_the_texts_of_xgrammar(
    triggers: list[str], excludes: list[str], loops: bool, end: str
) -> None:
    pairs = "".join(f'("{tag}", rule{number % 2}), ' for number, tag in enumerate(triggers))
    excluded = "".join(f'"{text}", ' for text in excludes)
    grammar = (
        f"root ::= TagDispatch({pairs}loop_after_dispatch={str(loops).lower()}, excludes=({excluded}))"
        f' "{end}"\nrule0 ::= "1"\nrule1 ::= "2" | "a"'
    )
    try:
        with warnings.catch_warnings(action="ignore"):  # a tag that cannot occur leaves its rule unused
            ours = lk.Grammar(grammar, VOCABULARY, syntax="gbnf")
    except GrammarError:
        contained = any(0 <= one.find(other) < len(one) - len(other) for one in triggers for other in triggers)
        assert contained or any(one.startswith(other) for one in triggers for other in excludes)
        return
    theirs = xgrammar.Grammar.from_ebnf(grammar)
    for length in range(5):
        for letters in product("ab<1", repeat=length):
            text = "".join(letters)
            assert ours.matches(text) == is_accepted(theirs, text), text


@pytest.mark.parametrize(
    ("macro", "written"),
    [
        ('"a" Token(258) "b"', '"a" <[258]> "b"'),
        ('"a" (Token(258, 259) | "b")', '"a" (<[258]> | <[259]> | "b")'),
        ("ExcludeToken(258)", "!<[258]>"),
        ('ExcludeToken(258)* <[258]> "b"', '!<[258]>* <[258]> "b"'),
        ("TokenTagDispatch((258, x))", "!<[258]>* (<[258]> x !<[258]>*)*"),
        ("TokenTagDispatch((258, x), loop_after_dispatch=false)", "!<[258]>* (<[258]> x)?"),
    ],
)
def test_tokens_are_those_of_llama_cpps_notation(macro: str, written: str) -> None:
    rule = '\nx ::= "ab"' if " x)" in macro else ""
    one, other = (lk.Grammar(f"root ::= {body}{rule}", VOCABULARY, syntax="gbnf") for body in (macro, written))
    assert masks_along(one) == masks_along(other)


def test_several_tokens_are_excluded_at_once() -> None:
    many = lk.Grammar("root ::= ExcludeToken(258, 97)", VOCABULARY, syntax="gbnf")
    legal = mask_after(many, [])
    assert [bool(legal[token]) for token in (258, 97, EOS, 98, 259)] == [False, False, False, True, True]
    free = lk.Grammar('root ::= TokenTagDispatch((258, x), excludes=(259,))\nx ::= "a"', VOCABULARY, syntax="gbnf")
    assert [bool(mask_after(free, [])[token]) for token in (97, 258, 259, EOS)] == [True, True, False, True]
    assert mask_after(free, [98, 258]).nonzero()[:, 0].tolist() == [97, 256]


def masks_along(grammar: lk.Grammar) -> list[list[bool]]:
    return [
        mask_after(grammar, tokens).tolist()
        for tokens in ([], [97], [97, 258], [258], [258, 97, 98], [97, 97, 258, 256, 258])
    ]


def mask_after(grammar: lk.Grammar, tokens: list[int]) -> torch.Tensor:
    context = lk.Context.of([[]], VOCABULARY.size)
    state = grammar.init_state(context)
    for token in tokens:
        state = grammar.advance(state, torch.tensor([token]))
    return grammar.process_logits(state, torch.zeros(1, VOCABULARY.size), context)[1][0] > -torch.inf


ERRORS = {
    'root ::= Regex("(")': (15, "Regex(...) has a pattern that cannot be read: "),
    'root ::= Regex("[b-a]")': (15, "Regex(...) has a pattern that cannot be read: "),
    'root ::= Regex("a", "b")': (9, "Regex(...) takes one string"),
    "root ::= Regex(7)": (15, "Regex(...) takes strings here"),
    'root ::= Regex("a", flags="x")': (26, "Regex(...) has the flag 'x'; allowed are i, s, u"),
    'root ::= Regex("a", flags=true)': (26, "Regex(...) takes a string as flags"),
    'root ::= Regex("a", json_string="yes")': (32, "Regex(...) takes true or false as json_string"),
    'root ::= Regex("a", other=1)': (26, "Regex(...) has the argument other; allowed are flags, json_string"),
    'root ::= Regex("\\"", json_string=true)': (15, "Regex(...) has a pattern that matches no text"),
    'root ::= Regex("a"': (9, "Regex(...) is not closed; write ) at its end"),
    'root ::= Regex("a" "b")': (19, "Regex(...) has '\"' where a comma or ) should be"),
    'root ::= Regex("a",)': (
        19,
        "Regex(...) has ')' where an argument should be; allowed are a string, a number, true",
    ),
    'root ::= Regex("a", flags="i", flags="s")': (31, "Regex(...) has the argument flags twice"),
    'root ::= Substring("a", b="c")': (26, "Substring(...) has the argument b; it takes none with a name"),
    "root ::= Token()": (9, "Token(...) takes the ids of one token or more"),
    'root ::= Token("a")': (15, "Token(...) takes the ids of tokens, such as 7, here"),
    "root ::= Token(true)": (15, "Token(...) takes the ids of tokens, such as 7, here"),
    "root ::= Token(1234567890123456789)": (15, "Token(...) has a number of more than 18 digits"),
    'root ::= TagDispatch("a")': (21, "TagDispatch(...) takes pairs of a string and the name of a rule"),
    'root ::= TagDispatch(("", root))': (22, "TagDispatch(...) takes strings that are not empty here"),
    'root ::= TagDispatch(("a", other))': (27, "the rule 'other' is not defined"),
    'root ::= TagDispatch(("ab", root), ("xabc", root))': (
        36,
        "has the tag 'xabc', which contains the tag 'ab'; leave one of them out",
    ),
    'root ::= TagDispatch(("ab", root), excludes=("a",))': (
        22,
        "has the tag 'ab', which begins with the excluded text 'a'",
    ),
    'root ::= TagDispatch(("a", root), excludes="b")': (
        43,
        "TagDispatch(...) takes a tuple, such as (1, 2) as excludes",
    ),
    "root ::= TokenTagDispatch((7, root), (7, root))": (9, "has a token twice; each may be one trigger, or excluded"),
    "root ::= Token(((((((1)))))))": (19, "Token(...) has tuples that contain each other too deeply"),
    'root ::= ("a" (="b"))': (
        14,
        "a lookahead (=...) stands at the end of a rule, and not in a group; make a rule of the group",
    ),
    'root ::= "a" (="b") "c"': (20, "nothing may follow a lookahead (=...) in its rule"),
    'root ::= "a" (="b") | "c"': (20, "nothing may follow a lookahead (=...) in its rule"),
    'root ::= "a" (="b"': (13, "a group is not closed; write ) at its end"),
}


@pytest.mark.parametrize("grammar", ERRORS)
def test_errors_say_where_what_is_wrong(grammar: str) -> None:
    with pytest.raises(GrammarError) as found:
        read_gbnf(grammar)
    assert (found.value.position, ERRORS[grammar][1] in found.value.reason) == (ERRORS[grammar][0], True), found.value


def test_a_rule_may_have_the_name_of_a_macro() -> None:
    grammar = lk.Grammar('root ::= Token ("b")\nToken ::= "a"', VOCABULARY, syntax="gbnf")
    assert grammar.matches("ab")
    assert not grammar.matches("b")
