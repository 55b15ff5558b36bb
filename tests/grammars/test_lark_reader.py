"""The reader of Lark's syntax, against Lark."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import lark
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.grammars.lark import read_lark
from logitkit.grammars.lark.literals import COMMON
from logitkit.grammars.rule_set import RuleSet
from logitkit.limits import DEFAULT_LIMITS
from tests.grammars.mistakes import check_mistake
from tests.grammars.recogniser import accepts

LETTERS = "ab. "

STRINGS = ['"a"', '"b"', '"ab"', '"."', '"A"i', '"a".."b"', r'"\x2e"']
# Lark joins the expressions of a terminal as texts, so a choice stands in a group.
PATTERNS = ["/a+/", "/[ab]+/", "/a?b/", "/(?:b|ab)/", "/a.*?b/", r"/a(?!b)b*/", r"/a\.?b/", "/A/i"]
TERMINALS = ["A", "B", "_C"]
RULES = ["start", "x", "_y"]
IGNORED = ['%ignore " "', '%ignore "b"', "%ignore /[ .]/", "%import common.WS\n%ignore WS"]


def _expressions(items: list[str]) -> st.SearchStrategy[str]:
    """Parts with all operators, of some items."""
    item = st.sampled_from(items)
    repeated = st.tuples(item, st.sampled_from(["", "", "", "?", "*", "+", " ~ 2", " ~ 0..2"])).map("".join)
    sequence = st.lists(repeated, min_size=1, max_size=2).map(" ".join)
    options = st.lists(sequence, min_size=1, max_size=2).map(" | ".join)
    group = st.tuples(options, st.sampled_from(["({})", "[{}]", "({})?", "({})+", "({}) ~ 1..2"])).map(
        lambda pair: pair[1].format(pair[0])
    )
    # Lark writes out all combinations of what is optional: more parts would take it minutes.
    plain = st.lists(repeated, min_size=1, max_size=2).map(" ".join)
    return st.lists(st.one_of(plain, plain, group), min_size=1, max_size=2).map("\n    | ".join)


@st.composite
def grammars(draw: st.DrawFn) -> str:
    """A grammar of all features that change a language."""
    literals = [*STRINGS, *PATTERNS]
    lines = [f"{name}: {draw(_expressions([*RULES, *TERMINALS, *STRINGS[:3], *PATTERNS[:2]]))}" for name in RULES]
    lines += [f"{name}: {draw(_expressions([*literals, *TERMINALS[:place]]))}" for place, name in enumerate(TERMINALS)]
    if draw(st.booleans()):
        lines.append(draw(st.sampled_from(IGNORED)))
    return "\n".join(lines) + "\n"


def _lark_accepts(parser: lark.Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.UnexpectedInput:
        return False
    except RuntimeError as error:
        # A fault of Lark: it cannot judge a text that several alternatives of the start rule match at once.
        assert "multiple start symbol items" in str(error)  # noqa: PT017
        reject()
    return True


def _read(grammar: str) -> RuleSet | None:
    """Read a grammar; None where Lark goes further: it reads rules without a finite text, and runs any lazy quantifier."""
    try:
        return read_lark(grammar, lexer="dynamic")
    except GrammarError as error:
        if "no finite text" in error.reason or "lazy quantifier" in error.reason:
            return None
        # Beside a lookahead, the end of a lazy quantifier may depend on all that follows.
        if "*?" in grammar and "looks at more than one character" in error.reason:
            return None
        raise


@settings(max_examples=100, deadline=None)
@given(grammars(), st.lists(st.text(LETTERS, max_size=6), min_size=1, max_size=8))
def test_a_dynamic_lexer_accepts_what_lark_does(grammar: str, texts: list[str]) -> None:
    try:
        parser = lark.Lark(grammar, parser="earley", lexer="dynamic_complete", ambiguity="forest")
    except (lark.exceptions.GrammarError, lark.exceptions.LexError):
        return
    rules = _read(grammar)
    if rules is None:
        return
    for text in texts:
        assert accepts(rules, text) == _lark_accepts(parser, text), text


COMMON_TEXTS = {
    "ESCAPED_STRING": ['""', '"a"', r'"\""', r'"\\"', '"', '"a"b"', '"\n"', r'"\"', r'"\\""'],
    "FLOAT": ["1", "1.", ".5", "1e5", "1.5E-3", "e5", "1.5e", "."],
    "SIGNED_NUMBER": ["+1", "-1.5", "--1", "1", "-.5e+2"],
    "CNAME": ["a1", "_", "1a", "A_b", ""],
    "C_COMMENT": ["/**/", "/* a\n*/", "/*/", "/***/", "/**/*/", "/* /* */"],
    "CPP_COMMENT": ["//", "// a", "// a\n", "/"],
    "SQL_COMMENT": ["--", "-- a", "-"],
    "NEWLINE": ["\n", "\r\n\n", "\r", ""],
    "WS": [" \t\f\r\n", "a"],
    "WS_INLINE": [" \t", "\n"],
    "HEXDIGIT": ["a", "F", "9", "g"],
    "DECIMAL": ["1.", ".1", "1.1", "1", "."],
}


def test_every_public_terminal_of_common_is_known() -> None:
    source = (Path(lark.__file__).parent / "grammars" / "common.lark").read_text("utf-8")
    assert {*re.findall(r"^([A-Z]\w*) *:", source, re.MULTILINE)} == COMMON.keys()


# Characters that decide whether a text is one of the terminal, and some that no text of it has.
COMMON_CHARACTERS = {
    **dict.fromkeys(("DIGIT", "INT", "SIGNED_INT"), "09+-a٣"),
    **dict.fromkeys(("DECIMAL", "FLOAT", "SIGNED_FLOAT", "NUMBER", "SIGNED_NUMBER"), "1.eE-"),
    **dict.fromkeys(("LCASE_LETTER", "UCASE_LETTER", "LETTER", "WORD", "CNAME", "HEXDIGIT"), "aFzé_1"),
    **dict.fromkeys(("WS", "WS_INLINE", "NEWLINE", "CR", "LF"), " \t\r\n\f\v"),
    "ESCAPED_STRING": '"\\a\n',
    "SH_COMMENT": "#a\n\r",
    "CPP_COMMENT": "/a\n\r",
    "C_COMMENT": "/*a\n",
    "SQL_COMMENT": "-a\n\r",
}


@pytest.mark.parametrize("name", COMMON)
def test_common_terminals_have_all_short_texts_that_lark_gives_them(name: str) -> None:
    grammar = f"start: {name}\n%import common.{name}\n"
    parser = lark.Lark(grammar, parser="earley", lexer="dynamic_complete")
    language = TextLanguage.of_tree(read_lark(grammar, lexer="dynamic").rules[1].body, DEFAULT_LIMITS)
    characters = COMMON_CHARACTERS[name]
    longest = 6 if len(characters) == 4 else 4
    texts = ["".join(text) for length in range(longest + 1) for text in product(characters, repeat=length)]
    found = {text for text in texts if language.contains(text)}
    assert found == {text for text in texts if _lark_accepts(parser, text)}
    assert 0 < len(found) < len(texts)


@pytest.mark.parametrize("name", COMMON_TEXTS)
def test_common_terminals_are_those_of_lark(name: str) -> None:
    grammar = f"start: {name}\n%import common.{name}\n"
    parser = lark.Lark(grammar, parser="earley", lexer="dynamic_complete")
    rules = read_lark(grammar)
    for text in COMMON_TEXTS[name]:
        assert accepts(rules, text) == _lark_accepts(parser, text), text


MISTAKES = {
    "start: a\n": (1, 8, "the rule 'a' is not defined"),
    "start: WS\n": (1, 8, "write `%import common.WS`"),
    'begin: "a"\n': (None, None, "there is no rule 'start'"),
    'start: "a\n': (1, 8, "not closed"),
    "start: /a\n": (1, 8, "not closed"),
    "start: 'a'\n": (1, 8, "double quotes"),
    'start: ("a"\n': (1, 8, "this ( is not closed"),
    'start: "a")\n': (1, 11, ") closes no group"),
    'start: "a"**\n': (1, 12, "repeated already"),
    "start: *\n": (1, 8, "nothing to repeat"),
    'start "a"\n': (1, 7, "the colon of a definition"),
    'start: "a"\nstart: "b"\n': (2, 1, "defined more than once"),
    "start: Name\n": (1, 8, "the rule 'Name' is not defined"),
    "start: _\n": (1, 8, "'_' means nothing here"),
    "start: _1\n": (1, 8, "begins neither with a lower-case letter"),
    "start: A\nA: B\nB: A\n": (3, 4, "contains itself"),
    'start: A\nA: x\nx: "a"\n': (2, 4, "contains the rule x"),
    "start: start\n": (1, 1, "no finite text"),
    "start: /a{2,1}/\n": (1, 10, "in this regular expression"),
    'start: "\\d"\n': (1, 9, "unknown escape"),
    'start: "b".."a"\n': (1, 8, "does not go from one character"),
    'start: "a" ~ 3..2\n': (1, 12, "the maximum at least the minimum"),
    'start: "a"{3,2}\n': (1, 11, "the maximum at least the minimum"),
    'start: "a"{2;}\n': (1, 13, "} after the number of copies is missing"),
    'start: "a" & "b"\n': (1, 12, "& is only allowed in terminals"),
    'start: A\nA: "a" & "b"\n': (2, 4, "no text is in all operands of &"),
    "start: A\nA: ~)\n": (2, 5, "a terminal to exclude"),
    "start: @other\n": (1, 8, "there is not a grammar @other; pass it in grammars={...}"),
    '%override a: "b"\n': (1, 1, "%override changes an imported rule"),
    '%extend a: "b"\n': (1, 1, "%extend changes an imported rule"),
    "%declare A\nstart: A\n": (1, 1, "%declare"),
    "%import python.NAME\nstart: NAME\n": (1, 9, "only terminals of `common`"),
    "%import common.NAME\nstart: NAME\n": (1, 16, "`common` has no terminal NAME"),
    "start: %json\n": (1, 8, "a JSON Schema is missing after %json"),
    'start: "a"\n  | %json {\n  "a" 1}\n': (3, 7, "the schema after %json is not JSON"),
    'start: %json {"type": "x"}\n': (1, 8, "in this schema: 'type' at # is 'x'"),
    'start: %json {"type": "array", "uniqueItems": true}\n': (1, 8, "in this schema: 'uniqueItems' at #"),
    'start: "a" %json {"enum": []}\n': (1, 12, "no value satisfies the schema"),
    "start: %json " + '{"not":' * 100_000: (1, 14, "nested too deeply"),
    "start: A\nA: %json {}\n": (2, 4, "the terminal A contains %json"),
    'start: "a"\n%ignore\nA: "b"': (2, 8, "%ignore is followed by a terminal"),
    'start: "a"\n%ignore': (2, 8, "%ignore is followed by a terminal"),
    'start: "a"\n%ignore %json {}\n': (2, 9, "JSON values stand in rules"),
    'root ::= "a"\n': (1, 6, "pass syntax='gbnf'"),
    "start: TagDispatch(a)\n": (1, 8, "XGrammar's macro TagDispatch(...) is not supported; use a structural tag"),
    'start: Regex("a+")\n': (1, 8, "XGrammar's macro Regex(...) is not supported; write it with classes"),
    'start: "a" Substring ("abc")\n': (1, 12, "XGrammar's macro Substring(...) is not supported"),
    "start: A\nA: /(?<!b)a/\n": (2, 1, "looks at the text before it"),
    "start: A\nA: /a+(?!bc)/\n": (2, 1, "more than one character after it"),
    "start: <[5-1]>\n": (1, 8, "token ids"),
}


@pytest.mark.parametrize("grammar", MISTAKES)
def test_a_mistake_has_its_place(grammar: str) -> None:
    check_mistake(grammar, MISTAKES[grammar])


@pytest.mark.parametrize(
    ("terminal", "text", "accepted"),
    [
        (r"/if\b/", "if", True),
        (r"/if\b/", "ifx", False),
        (r"/if\b/", "if.", True),
        (r"/if(?![a-z])/", "ifx", False),
        (r"/if(?![a-z])/", "if.", True),
        (r"/a.*?x/", "ax", True),
        (r"/a.*?x/", "axx", True),
        (r"/if\Z/", "ifx", False),
    ],
)
def test_a_terminal_looks_at_the_character_after_it(terminal: str, text: str, accepted: bool) -> None:
    assert accepts(read_lark(f'start: A ["x" | "."]\nA: {terminal}\n'), text) == accepted


@pytest.mark.parametrize(
    ("grammar", "valid", "invalid"),
    [
        ("start: ST\nST: LOWER & ABC\nLOWER: /[a-z]+/\nABC: /[abcABC]+/", ["abc", "a"], ["A", "d", "aB", ""]),
        ("start: ST\nST: /[ab]+/ | /[cd]+/ & /[def]+/", ["ab", "dd"], ["c", "e", "ad"]),
        ("start: ST\nST: (/[abf]+/ | /[cd]+/) & /[def]+/", ["d", "f"], ["a", "b", "df"]),
        ("start: ST\nST: /[ab]/+ | /[cd]/+ & /[def]/+", ["ab", "dd"], ["c", "e"]),
        ("start: ST\nST: /[abc]/ & /[bcd]/ & /[cde]/", ["c"], ["a", "b", "d", "e"]),
        ("start: ST\nST: /[abcd]+/ & ~/.*[ab].*/", ["cd", "c"], ["x", "aa", "ca", "b"]),
        ("start: L\nL: /[a-z \\n]*/ & ~/(?s:.*)\\n\\n(?s:.*)/", ["foo", "a\nb", "a\n"], [".", "a\n\na"]),
        ('start: A\nA: /[ab]{2}/ & ~"ab" & ~"ba"', ["aa", "bb"], ["ab", "ba", "a"]),
        ('start: a{2,3}\na: "a" | "b"', ["aa", "aba"], ["a", "aaaa"]),
        ('start: "a"{2}', ["aa"], ["a", "aaa"]),
        ('start: ("a" "b"){1,}', ["ab", "abab"], ["", "aba"]),
        ('start: A\nA: "a"{,2} "/"', ["/", "aa/"], ["aaa/"]),
        ('start: myRule-2\nmyRule-2: My_Name->alias\nMy_Name: "\\/\\b"', ["/\b"], ["/"]),
    ],
)
def test_what_llguidance_and_xgrammar_add(grammar: str, valid: list[str], invalid: list[str]) -> None:
    rules = read_lark(grammar)
    assert [accepts(rules, text) for text in (*valid, *invalid)] == [True] * len(valid) + [False] * len(invalid)


@pytest.mark.parametrize(
    ("terminals", "pattern"),
    [
        ("A: B /a(?!b)/\nB: /[abc]*/ & /a.*b/", "a[abc]*ba(?!b)"),
        ("A: (B | /c/) /a?(?!b)/\nB: /[ab]*/ & ~/b.*/", "(?:(?:a[ab]*)?|c)a?(?!b)"),
        ("A: /(?!ba)/ B /c/\nB: /[ab]*/ & ~/a.*/", "(?!ba)(?:b[ab]*)?c"),
        ("A: (B /c?/)+ /(?<!a)(?!b)/\nB: /[ab]{1,3}/ & /.*b/", "(?:[ab]{0,2}bc?)+(?<!a)(?!b)"),
    ],
)
def test_an_assertion_beside_an_intersection(terminals: str, pattern: str) -> None:
    rules = read_lark(f'start: A ["b" | "."]\n{terminals}', lexer="dynamic")
    texts = ["".join(letters) for length in range(6) for letters in product("abc.", repeat=length)]
    found = {text for text in texts if accepts(rules, text)}
    assert found == {text for text in texts if re.fullmatch(f"{pattern}[b.]?", text)}
    assert found


def test_the_options_of_an_intersection_have_no_order() -> None:
    terminals = "A: B /a(?!b)/\nB: /[abc]*/ & /a.*b/"
    with pytest.raises(GrammarError, match="whose options have no order, such as one with & or ~"):
        read_lark(f"start: A\n{terminals}", lexer="contextual")


def test_a_byte_order_mark_may_begin_a_grammar() -> None:
    assert read_lark('\ufeffstart: "a"').rules[0].begin == 1


def test_special_tokens_are_listed() -> None:
    assert read_lark("start: <|end|> <[1,5-7]>").tokens == ("<|end|>", 1, 5, 6, 7)


def test_a_name_that_is_not_used_is_a_warning() -> None:
    assert read_lark('start: "a"\nB: "b"\n').warnings == ("the terminal B is not used",)


def test_large_grammars_are_read_or_refused() -> None:
    chain = "".join(f"a{i}: a{i + 1}\n" for i in range(3000))
    assert len(read_lark(f'start: a0\n{chain}a3000: "a"\n').rules) == 3003
    terminals = "".join(f"A{i}: A{i + 1} A{i + 1}\n" for i in range(100))
    for grammar in (
        f'start: A0\n{terminals}A100: "a"\n',
        "start: " + "(" * 10_000 + '"a"' + ")" * 10_000,
        "start: " + '"a" ' * 500_000,
    ):
        with pytest.raises((GrammarError, PatternTooLarge)):
            read_lark(grammar)


def test_terminals_contain_each_other_to_any_depth() -> None:
    def chain(length: int, end: str) -> str:
        return "start: T0\n" + "\n".join(f"T{i}: T{i + 1} {end}" for i in range(length)) + f"\nT{length}: /[ab]/"

    for grammar in (chain(5000, '| "a"'), "\n".join(chain(5000, '| "a"').splitlines()[::-1])):
        matcher = TextLanguage.of_tree(read_lark(grammar).rules[1].body, DEFAULT_LIMITS)
        assert [text for text in ("", "a", "b", "c", "ab") if matcher.contains(text)] == ["a", "b"]
    with pytest.raises(PatternTooLarge, match="takes more than 7000000 steps"):
        read_lark(chain(10_000, "/[a-c]/"))
