"""Typical mistakes in GBNF: each message says what was found, where, and what to write instead."""

from __future__ import annotations

from typing import Literal

import pytest

from logitkit.errors import ConfigurationError, GrammarError
from logitkit.grammars.gbnf import read_gbnf
from logitkit.grammars.read import read_grammar
from logitkit.limits import DEFAULT_LIMITS

KNOWN = "an attribute of a rule is one of capture, lazy, max_chars, max_tokens"
PART = "a string, a class, a rule, a group, a repetition or |"

# Each mistake with the line and the column of the error (None if it has no place) and the reason.
MISTAKES = [
    ("", None, None, "the grammar has no rules"),
    ("# only a comment\n", None, None, "the grammar has no rules"),
    (
        'rot ::= "a"',
        None,
        None,
        "there is no rule 'root'; pass the name of the start rule as start=...; did you mean 'rot'?",
    ),
    ('root ::= "a" itme\nitem ::= "b"', 1, 14, "the rule 'itme' is not defined; did you mean 'item'?"),
    (
        'root ::= "a"\nroot ::= "b"',
        2,
        1,
        "the rule 'root' is already defined in line 1; join both definitions by |, or rename one of them",
    ),
    (
        'root ::= "a" root',
        1,
        1,
        "the rule 'root' has no finite text (root -> root -> ...); add an alternative that ends",
    ),
    (
        'root ::= x\nx ::= y | "a" x\ny ::= x x',
        1,
        1,
        "the rule 'root' has no finite text (root -> x -> y -> x -> ...); add an alternative that ends",
    ),
    ('root ::= "a', 1, 10, 'a string is not closed; write " at its end, and \\" inside of it'),
    ('root ::= "a\nb ::= "c"\n', 1, 10, 'a string is not closed; write " at its end, and \\" inside of it'),
    ("root ::= [a-z", 1, 10, "a class is not closed; write ] at its end, and \\] inside of it"),
    ("root ::= []", 1, 10, 'the class [] is empty; write "" for the empty text'),
    ("root ::= [^]", 1, 10, "[^] is not a class; write ."),
    ("root ::= [z-a]", 1, 11, "the range z-a is in reverse order; write the smaller character first"),
    (
        'root ::= "\\q"',
        1,
        11,
        'the escape \\q does not exist; allowed are \\n \\r \\t \\\\ \\" \\[ \\] \\{ \\} \\- \\xHH \\uHHHH and \\UHHHHHHHH',
    ),
    ("root ::= [\\d]", 1, 11, "GBNF does not know \\d; write the class [0-9]"),
    ('root ::= "\\x4"', 1, 11, "\\x takes 2 hexadecimal digits, and '4' follows"),
    ('root ::= "\\U00110000"', 1, 11, "\\U00110000 is not a character; the last one is \\U0010FFFF"),
    (
        'root ::= "\\ud83d"',
        1,
        11,
        "half of a surrogate pair is not a character; write the whole one, such as \\U0001F600",
    ),
    ("root ::= [\\ud800-\\udfff]", 1, 10, "the class [\\ud800-\\udfff] contains no character"),
    (
        'root ::= ("a" | "b"\nb ::= "c"',
        1,
        10,
        "the definition of 'b' stands inside of the rule 'root'; close the group before it with )",
    ),
    ('root ::= ("a"', 1, 10, "a group is not closed; write ) at its end"),
    ('root ::= "a")', 1, 13, ') closes no group; for a literal ) write ")"'),
    ('root ::= * "a"', 1, 10, 'nothing to repeat; for a literal * write "*"'),
    ('root ::= "a" | *', 1, 16, 'nothing to repeat; for a literal * write "*"'),
    ('root ::= "a"{,3}', 1, 13, "a repetition is written {m}, {m,} or {m,n}"),
    ('root ::= "a"{3,2}', 1, 13, "the counts {3,2} are in reverse order; write the smaller one first"),
    ('root ::= "a"{99999999999}', 1, 13, "the count is too large; the largest is 4294967294"),
    (
        "root ::= 'a'",
        1,
        10,
        'found "\'"; allowed is a string, a class, a rule, a group, a repetition or | (a string is written "...")',
    ),
    ('root = "a"', 1, 6, "found '='; allowed is ::= after the name 'root' (a rule is written name ::= ...)"),
    ('root := "a"', 1, 6, "found ':'; allowed is ::= after the name 'root' (a rule is written name ::= ...)"),
    (
        'root: "a"\n',
        1,
        5,
        (
            "this looks like a grammar of Lark; pass syntax='lark' "
            "(as GBNF: found ':'; allowed is ::= after the name 'root' (a rule is written name ::= ...))"
        ),
    ),
    (
        'root ::= "a", "b"',
        1,
        13,
        f"found ','; allowed is {PART} (parts follow each other without commas)",
    ),
    (
        'root ::= "a";',
        1,
        13,
        f"found ';'; allowed is {PART} (a rule ends at the end of its line, without a semicolon)",
    ),
    ('<root> ::= "a"', 1, 1, "the name of a rule is written without < >"),
    ('root ::= <a>\n<a> ::= "b"', 2, 5, "the name of a rule is written without < >"),
    ('root ::=\nb ::= "c"', 2, 1, "nothing stands before the definition of 'b'; for the empty text write \"\""),
    ('root ::= "a" |\nb ::= "c"', 2, 1, "nothing stands before the definition of 'b'; for the empty text write \"\""),
    (
        'root ::= "a" b ::= "c"',
        1,
        14,
        "the definition of 'b' stands inside of the rule 'root'; begin it on a line of its own",
    ),
    ("root ::= <x", 1, 10, "a special token is written <text> or <[id]>"),
    ("root ::= <[a]>", 1, 10, "a special token is written <text> or <[id]>"),
    ('root ::= r\nr[slow] ::= "a"', 2, 3, KNOWN),
    ('root ::= r\nr[] ::= "a"', 2, 3, KNOWN),
    ('root ::= r\nr[lazy, lazy] ::= "a"', 2, 9, "the attribute lazy is given twice"),
    ('root ::= r\nr[lazy=1] ::= "a"', 2, 9, "lazy has no value"),
    ('root ::= r\nr[capture=1] ::= "a"', 2, 12, 'a capture has a name, as in capture="name"'),
    ('root ::= r\nr[max_chars] ::= "a"', 2, 12, "max_chars needs a number, as in max_chars=100"),
    ('root ::= r\nr[max_tokens="a"] ::= "a"', 2, 17, "max_tokens needs a number, as in max_tokens=100"),
    (
        'root ::= r\nr[max_tokens=1000000000] ::= "a"',
        2,
        24,
        "the number of max_tokens has more than 9 digits",
    ),
    ('root ::= r\nr[capture=""] ::= "a"', 2, 13, 'a capture has a name, as in capture="name"'),
    ('root ::= r\nr[lazy max_chars=1] ::= "a"', 2, 8, "a comma, or ] after the attributes of a rule, is missing"),
    ('root ::= r\nr[max_chars=1] ::= "ab"', 2, 1, "the rule 'r' has no text with its attributes"),
    (
        'root ::= r\nr[temperature=0.5] ::= "a"',
        2,
        3,
        (
            "temperature changes how tokens are sampled, and not which texts are allowed; leave it out, and chain the grammar "
            "with a processor such as Temperature"
        ),
    ),
    (
        'root ::= r\nr[lazy] ::= s\ns ::= "a" s | "b"',
        2,
        1,
        (
            "the rule 'r' has attributes, so it is one pattern, but it calls 's', which calls itself; leave out the attributes, "
            "or write the rule without it"
        ),
    ),
    (
        'root ::= r\nr[max_chars=5] ::= s\ns ::= t t\nt[max_tokens=1] ::= "a"',
        4,
        1,
        (
            "the rule 't' has max_tokens, but 'r' calls it, which is one pattern because of its own attributes; leave out "
            "max_tokens here, or the attributes of 'r'"
        ),
    ),
    (
        'root ::= r\nr[max_tokens=5] ::= "a" s\ns[capture] ::= "b"',
        3,
        1,
        (
            "the rule 's' has capture, but 'r' calls it, which is one pattern because of its own attributes; leave out capture "
            "here, or the attributes of 'r'"
        ),
    ),
    (
        'root ::= r\nr[lazy] ::= "a" <x>',
        2,
        1,
        (
            "the rule 'r' has attributes, so it is one pattern over text, but it has a special token; leave out the attributes, "
            "or the token"
        ),
    ),
    (
        'root ::= r |\nr[max_tokens=5]::= "a"',
        2,
        1,
        "nothing stands before the definition of 'r'; for the empty text write \"\"",
    ),
    ('root[fast] ::= "a"', 1, 6, KNOWN),
    (
        "root ::= /a+/",
        1,
        10,
        f"found '/'; allowed is {PART} (regular expressions are not supported; a comment begins with #)",
    ),
    (
        'start: "a"\n',
        1,
        6,
        (
            "this looks like a grammar of Lark; pass syntax='lark' "
            "(as GBNF: found ':'; allowed is ::= after the name 'start' (a rule is written name ::= ...))"
        ),
    ),
    (
        '{"type": "object"}',
        1,
        1,
        (
            "this looks like a JSON Schema; use JsonSchema instead of Grammar "
            "(as GBNF: found '{'; allowed is the name of a rule)"
        ),
    ),
    (
        "[a-z]+@[a-z]+",
        1,
        1,
        (
            "this looks like a regular expression; use Regex instead of Grammar "
            "(as GBNF: found '['; allowed is the name of a rule)"
        ),
    ),
    (
        'root ::= "a" // hi',
        1,
        14,
        f"found '/'; allowed is {PART} (regular expressions are not supported; a comment begins with #)",
    ),
    ('root ::= "a\\', 1, 12, "the grammar ends in an escape"),
    ('root ::= "a" é', 1, 14, "found 'é'; allowed is a string, a class, a rule, a group, a repetition or |"),
    (
        'root ::= a.b ::= "c"',
        1,
        12,
        "the definition of 'b' stands inside of the rule 'root'; begin it on a line of its own",
    ),
    ('a.b ::= "c"', 1, 2, "found '.'; allowed is ::= after the name 'a' (names consist of letters, digits, - and _)"),
    ('root ::= "\ud800"', 1, 11, "half of a surrogate pair is not a character; decode the file as UTF-8"),
    ("root ::= <>", 1, 10, "a special token is written <text> or <[id]>"),
    ('root "a"', 1, 6, "found '\"'; allowed is ::= after the name 'root'"),
    ("root ::= # nothing", 1, 1, "the rule 'root' has no body; for the empty text write \"\""),
    ("root", 1, 5, "the grammar ends, and ::= after the name 'root' is missing"),
]


@pytest.mark.parametrize(("text", "line", "column", "reason"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes(text: str, line: int | None, column: int | None, reason: str) -> None:
    with pytest.raises(GrammarError) as caught:
        read_gbnf(text)
    assert (caught.value.line, caught.value.column, caught.value.reason) == (line, column, reason)


def test_the_message_shows_the_line_and_a_caret() -> None:
    with pytest.raises(GrammarError) as caught:
        read_gbnf('root ::= "a"\n\n\titem ::= "a" itme | "b"\n')
    assert str(caught.value) == (
        "line 3, column 15: the rule 'itme' is not defined; did you mean 'item'?\n"
        '    3 |  item ::= "a" itme | "b"\n'
        "      |               ^"
    )


@pytest.mark.parametrize("syntax", ["gbnf", "lark"])
def test_the_start_and_the_lexer_are_names(syntax: Literal["gbnf", "lark"]) -> None:
    with pytest.raises(ConfigurationError, match="start is of type int; give a str"):
        read_grammar("", syntax, 3, None, DEFAULT_LIMITS)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="lexer is 'basic'; allowed are 'longest', 'contextual' and 'dynamic'"):
        read_grammar("", syntax, None, "basic", DEFAULT_LIMITS)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [b"root ::= x", None, 3, ["root"]])
def test_a_grammar_is_a_text(given: object) -> None:
    with pytest.raises(ConfigurationError, match=f"text is of type {type(given).__name__}; give a str"):
        read_grammar(given, "gbnf", None, None, DEFAULT_LIMITS)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="limits is "):
        read_gbnf("root ::= .", limits=given)  # type: ignore[arg-type]
