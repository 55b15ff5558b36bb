"""The texts that a grammar captures: against all ways to read a text, Lark, LLGuidance and XGrammar."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings

import logitkit as lk
from logitkit.errors import ConfigurationError, OutputError, PatternTooLarge
from tests.campaigns.captures import check
from tests.grammars.capture_cases import CaptureCase, capture_cases

BYTES: list[bytes | None] = [bytes([byte]) for byte in range(256)]
EOS, THINK, PAD = 256, 257, 258
VOCABULARY = lk.Vocabulary([*BYTES, None, None, None], eos_ids=[EOS], special={"<think>": THINK}, pad_id=PAD)


def lark_grammar(text: str, lexer: str | None = None) -> lk.Grammar:
    return lk.Grammar(text, VOCABULARY, syntax="lark", lexer=lexer)  # type: ignore[arg-type]


def guidance_captures(grammar: str, text: str) -> list[tuple[str, str]]:
    """Return all captures of LLGuidance in order."""
    llguidance = pytest.importorskip("llguidance", reason="needs LLGuidance: pip install -c constraints.txt llguidance")
    tokenizer = llguidance.LLTokenizer("byte")
    matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(grammar))
    assert not matcher.is_error(), matcher.get_error()
    assert matcher.try_consume_tokens([*text.encode()]) == len(text.encode())
    assert matcher.is_accepting()
    # It notices the end of a terminal that could go on only then.
    matcher.try_consume_tokens([tokenizer.eos_token])
    return [(name, found.decode()) for name, found in matcher.get_captures()]


def xgrammar_captures(grammar: str, text: str) -> list[tuple[str, str]]:
    xgrammar = pytest.importorskip("xgrammar", reason="needs XGrammar: pip install -c constraints.txt xgrammar")
    tokens = [*map(chr, range(128)), "</s>"]
    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo(tokens, stop_token_ids=[128]))
    matcher = xgrammar.GrammarMatcher(compiler.compile_grammar(xgrammar.Grammar.from_lark(grammar)))
    assert matcher.accept_string(text)
    return [(name, found.decode()) for name, found in matcher.get_captures()]


@settings(deadline=None)
@given(capture_cases())
def test_captures_are_those_of_the_preferred_reading(case: CaptureCase) -> None:
    check(case, Counter())


# Each grammar with texts, for which the last text of each capture is that of LLGuidance.
AS_LLGUIDANCE = {
    'start: a+\na[capture]: "x" | "y"': ["xxyx"],
    'start[capture]: e\ne[capture]: "(" e ")" | "x"': ["((x))", "x"],
    'start: x\nx[capture]: x "," A | A\nA: "a"': ["a,a,a"],
    'start: x\nx[capture="list"]: A "," x | A\nA: "a"': ["a,a,a"],
    'start: x\nx[capture]: o "a"\no[capture]: "z"?': ["a", "za"],
    'start: text\ntext[capture]: "nope" | ""': ["", "nope"],
    'start: s | "foo"\ns[capture]: m m m m\nm: "a" | ""': ["", "a", "aaaa"],
    'start[capture]: r "c"\nr[capture, suffix=/b?c/]: /a*b?/': ["abcc", "aacc"],
    'start[capture]: r "d"\nr[capture, suffix=/b|c/, stop_capture="end"]: /[abc]*/': ["acd", "bd"],
    'start[capture]: r ("d" | "")\nr[capture, suffix=/b{1,2}c/, stop_capture="end"]: /[ab]*/': ["abbcd", "abbbc"],
    'start[capture]: r "b"\nr[capture, stop="x", stop_capture="end"]: /a*/': ["aaxb", "xb"],
    "start[capture]: r\nr[capture, stop=/xy?/]: /a*/": ["aax"],
    "start: h r\nh[capture, lazy]: /.*<end>/\nr[capture]: /[a-z]*/": ["foo<end>bar"],
    'start: "<" h "|" d ">"\nh[capture]: i\ni[capture, suffix="!"]: /.*/\nd[capture]: %json {"type": "boolean"}': [
        "<a|b!|true>"
    ],
    'start: n "," n\nn[capture]: NUMBER | NAME\nNUMBER: /[0-9]+/\nNAME: /[a-z]+/\n%ignore /[ ]+/': ["12,ab", "a ,b"],
    'start: a b\na[capture]: "é"\nb[capture]: /[ü€]+/': ["é€ü"],
}


@pytest.mark.parametrize("grammar", AS_LLGUIDANCE)
def test_the_last_text_of_each_capture_is_that_of_llguidance(grammar: str) -> None:
    for text in AS_LLGUIDANCE[grammar]:
        found = lark_grammar(grammar).captures(text)
        assert {name: texts[-1] for name, texts in found.items() if texts} == dict(guidance_captures(grammar, text))


# Each grammar and text with the captures here and LLGuidance's. Here they are those of the text as it is read as a whole.
DIFFERENCES = {
    # LLGuidance has every text with which the rule might have ended, and leaves out a text that is equal to the one before.
    ('start: x\nx[capture]: x "," A | A\nA: "a"', "a,a"): ({"x": ["a", "a,a"]}, [("x", "a"), ("x", "a,a")]),
    ('start: x\nx[capture]: A ("," A)*\nA: "a"', "a,a"): ({"x": ["a,a"]}, [("x", "a"), ("x", "a,a")]),
    ('start: a+\na[capture]: "x"', "xx"): ({"a": ["x", "x"]}, [("a", "x")]),
    # LLGuidance has rules that are not part of the text: after `a`, both might have been read.
    ('start: p "1" | q "2"\np[capture]: A\nq[capture]: A\nA: "a"', "a2"): (
        {"p": [], "q": ["a"]},
        [("p", "a"), ("q", "a")],
    ),
    ('start: o "a"\no[capture]: "z"?', "za"): ({"o": ["z"]}, [("o", ""), ("o", "z")]),
    # LLGuidance includes ignored text before a rule. Lark does not.
    ('start: a ";" a\na[capture]: A "b"\nA: "a"\n%ignore " "', "a b ;  ab"): (
        {"a": ["a b", "ab"]},
        [("a", "a b"), ("a", "  ab")],
    ),
}


@pytest.mark.parametrize(("grammar", "text"), DIFFERENCES)
def test_known_differences_from_llguidance(grammar: str, text: str) -> None:
    here, theirs = DIFFERENCES[grammar, text]
    assert lark_grammar(grammar).captures(text) == here
    assert guidance_captures(grammar, text) == theirs


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        ('start[capture="outer"]: f "z"\nf[capture="inner", suffix="!"]: /[a-z]*/', "xy!z"),
        ('start[capture="outer"]: f "z"\nf[capture="inner", stop="!"]: /[a-z]*/', "xy!z"),
        ('start[capture="outer"]: f "z"\nf[capture, suffix=/!!+/, stop_capture="marker"]: /[a-z]*/', "xy!!z"),
        ('start[capture="outer"]: f f\nf[stop="!", stop_capture="marker"]: /[a-z]*/', "xy!z!"),
    ],
)
def test_markers_are_captured_as_by_xgrammar(grammar: str, text: str) -> None:
    found = lark_grammar(grammar).captures(text)
    theirs: dict[str, list[str]] = {}
    for name, texts in xgrammar_captures(grammar, text):
        theirs.setdefault(name, []).append(texts)
    assert found == theirs


def test_a_marker_of_stop_that_follows_again_is_refused() -> None:
    # LLGuidance reads the marker of `aax` twice, and XGrammar reads `aaxx`.
    with pytest.raises(lk.errors.GrammarError, match="write suffix= in place of stop=") as caught:
        lark_grammar('start: r "xy"\nr[stop="x"]: /a*/')
    assert (caught.value.line, caught.value.column) == (2, 1)
    assert lark_grammar('start: r "yx"\nr[capture, stop="x"]: /a*/').captures("aaxyx") == {"r": ["aa"]}


def test_special_tokens_are_part_of_a_text_by_name() -> None:
    grammar = lark_grammar(
        'start: all\nall[capture]: <think> text <[257]> %json {"type": "null"}\ntext[capture]: /[a-z<>]*/'
    )
    expected = {"all": ["<think>a<think>null"], "text": ["a"]}
    assert grammar.captures("<think>a<think>null") == expected
    ids = [THINK, ord("a"), THINK, *b"null"]
    for output in (ids, [*ids, EOS], [*ids, -1, EOS, PAD, -1], torch.tensor([*ids, EOS]), iter(ids)):
        assert grammar.captures(output) == expected  # type: ignore[arg-type]


def test_nested_grammars_have_ignored_texts_of_their_own() -> None:
    nested = '%lark {\nstart: a "y"\na[capture="inner"]: "x"\n%ignore " "\n}'
    grammar = lark_grammar(f'start[capture="all"]: n "-"\nn[capture]: {nested}\n%ignore "_"')
    for text in ("x y-", "_x y__-_", "_ x y _-_"):
        assert grammar.captures(text) == {"all": [text.strip("_ ")], "n": ["x y"], "inner": ["x"]}


def test_the_conditions_of_a_lexer_hold() -> None:
    text = 'start: (name | key)+\nname[capture]: NAME\nkey[capture]: "if"\nNAME: /[a-z]+/\n%ignore " "'
    assert lark_grammar(text, "longest").captures("if ifx") == {"name": ["ifx"], "key": ["if"]}
    assert lark_grammar(text, "dynamic").captures("ifx") == {"name": ["ifx"], "key": []}
    assert lark_grammar('start: (a | b)+\na[capture]: /<(?!=)/\nb[capture]: "<="').captures("<<=") == {
        "a": ["<"],
        "b": ["<="],
    }


def test_a_grammar_without_captures_has_none() -> None:
    assert lk.Grammar('root ::= "a" root?', VOCABULARY).captures("aaa") == {}


WRONG: dict[object, tuple[type[Exception], str]] = {
    "xa": (OutputError, "the grammar refuses 'a' at character 1 of the output"),
    "": (OutputError, "the output is not complete"),
    (ord("x"), ord("a")): (OutputError, "the grammar refuses 'a' at token 1 of the output"),
    (ord("x"), THINK): (OutputError, r"output\[1\] is token 257 \(<think>\), which has no text and is not named"),
    (ord("x"), EOS, ord("x")): (OutputError, r"output\[2\] is token 120, which follows EOS at 1"),
    (0xC3,): (OutputError, r"the text of output\[0\] is not valid UTF-8"),
    (1000,): (ConfigurationError, r"output\[0\] is 1000; the token ids of one row are integers from 0 to 258, or -1"),
    (1.5,): (ConfigurationError, r"output\[0\] is 1.5"),
    b"x": (ConfigurationError, "output is of type bytes; give the text as str"),
    None: (ConfigurationError, "output is of type NoneType"),
    "\ud800": (ConfigurationError, "output has a lone surrogate"),
}


@pytest.mark.parametrize("output", WRONG)
def test_an_output_that_is_not_a_text_of_the_grammar(output: object) -> None:
    error, reason = WRONG[output]
    with pytest.raises(error, match=reason):
        lark_grammar('start: a+\na[capture]: "x"').captures(output)  # type: ignore[arg-type]


def test_a_text_that_can_be_read_in_too_many_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logitkit.grammars.captures._MOST_ITEMS", 5_000)
    with pytest.raises(PatternTooLarge, match="an output of 200 characters can be read in too many ways"):
        lark_grammar('start: a\na[capture]: a a | "x"').captures("x" * 200)


def test_deep_and_long_texts_take_no_recursion() -> None:
    grammar = lk.Grammar('start: e\ne[capture]: "(" e ")" | "x"', VOCABULARY, syntax="lark", max_depth=8)
    deep = "(" * 3000 + "x" + ")" * 3000
    assert [len(text) for text in grammar.captures(deep)["e"]] == [*range(1, 6002, 2)]


def test_generated_outputs_have_captures() -> None:
    grammar = lark_grammar('start: (key "=" value)+\nkey[capture]: /[a-z]+/\nvalue[capture, suffix=";"]: /[^;]+/')
    for seed in range(5):
        text = grammar.example(seed)
        found = grammar.captures(text)
        assert "".join(f"{key}={value};" for key, value in zip(found["key"], found["value"], strict=True)) == text
        assert grammar.captures([*text.encode(), EOS]) == found
