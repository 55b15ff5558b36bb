"""Each format, by texts that belong to it and texts that do not."""

from __future__ import annotations

from typing import Any

import pytest

from logitkit.errors import GrammarError
from tests.structural_tags.tokens import accepts, made, spelled

NUMBER = {"type": "json_schema", "json_schema": {"type": "integer"}}
ANY = {"type": "any_text"}
SIMPLE = {"begin": "<a>", "content": NUMBER, "end": "</a>"}
OTHER = {"type": "tag", "begin": "<ab>", "content": ANY, "end": ";"}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}
XML = {"type": "json_schema", "json_schema": {**PERSON, "additionalProperties": False}, "style": "qwen_xml"}


def const(text: str) -> dict[str, Any]:
    return {"type": "const_string", "value": text}


CASES: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    ("const_string", const("né"), ["né"], ["", "n", "nés"]),
    ("empty const_string", const(""), [""], ["a"]),
    ("json_schema", NUMBER, ["1", "-20"], ["", "1.5", "a", " 1"]),
    ("json", {"type": "json_schema", "json_schema": PERSON}, ['{"name": "x"}', '{"name":"x","age":1}'], ['{"age":1}']),
    (
        "json without white space",
        {"type": "json_schema", "json_schema": PERSON, "max_whitespace_cnt": 0},
        ['{"name":"x"}'],
        ['{"name": "x"}'],
    ),
    (
        "qwen_xml",
        XML,
        [
            "<parameter=name>\nBob\n</parameter>\n<parameter=age>\n3\n</parameter>",
            "<parameter=name>Bob</parameter><parameter=age>3</parameter>",
            '<parameter=name>"B<</parameter>',
        ],
        ["<parameter=age>3</parameter>", "<parameter=name>B</parameter><parameter=age>x</parameter>"],
    ),
    (
        "minimax_xml",
        {**XML, "style": "minimax_xml"},
        [
            '<parameter name="name">Bob\n</parameter>\n<parameter name="age">3</parameter>',
            '<parameter name="name">"B<</parameter><parameter name="age">3</parameter>',
            '<parameter name="name">B</parameter>\n<parameter name="age">3</parameter>\n',
            '<parameter name="name"></parameter>',
        ],
        [
            '<parameter name="age">3</parameter>',
            '<parameter name="name">B</parameter><parameter name="age">"3"</parameter>',
            "<parameter=name>B</parameter>",
        ],
    ),
    (
        "kimi_k3_xml",
        {**XML, "style": "kimi_k3_xml"},
        [
            '<|open|>argument key="name" type="string"<|sep|>Bob<|close|>argument<|sep|>',
            (
                '<|open|>argument key="name" type="string"<|sep|>B<|close|>argument<|sep|>'
                '<|open|>argument key="age" type="number"<|sep|>3<|close|>argument<|sep|>'
            ),
        ],
        [
            "",
            '<|open|>argument key="name" type="number"<|sep|>3<|close|>argument<|sep|>',
            '<|open|>argument key="name" type="string"<|sep|>B<|close|>argument<|sep|>x',
            (
                '<|open|>argument key="name" type="string"<|sep|>B<|close|>argument<|sep|>'
                '<|open|>argument key="age" type="integer"<|sep|>3<|close|>argument<|sep|>'
            ),
        ],
    ),
    (
        "cohere_xml",
        {**XML, "style": "cohere_xml"},
        [
            '<cofl:value name="name" type="raw">Bob</cofl:value>',
            '<cofl:value name="name" type="raw">B</cofl:value><cofl:value name="age" type="json">3</cofl:value>',
        ],
        [
            "",
            '<cofl:value name="name" type="json">"Bob"</cofl:value>',
            '<cofl:value type="raw">Bob</cofl:value>',
            '<cofl:value name="name" type="raw">B</cofl:value><cofl:value name="age" type="raw">3</cofl:value>',
        ],
    ),
    (
        "glm_xml",
        {**XML, "style": "glm_xml"},
        [
            "<arg_key>name</arg_key>\n<arg_value>Bob\n</arg_value>\n<arg_key>age</arg_key>\n<arg_value>3</arg_value>",
            "<arg_key>name</arg_key><arg_value>{B</arg_value><arg_key>age</arg_key><arg_value>3</arg_value>",
            "\n<arg_key>name</arg_key>\n<arg_value>B</arg_value>\n",
        ],
        [
            "<arg_key>age</arg_key><arg_value>3</arg_value>",
            "<arg_key>name</arg_key><arg_value>B</arg_value><arg_key>age</arg_key><arg_value>x</arg_value>",
        ],
    ),
    (
        "qwen_xml_parameter",
        {"type": "qwen_xml_parameter", "json_schema": PERSON},
        ["<parameter=name>B</parameter>"],
        [""],
    ),
    ("regex", {"type": "regex", "pattern": "[A-Z]{2}-[0-9]+"}, ["AB-1"], ["A-1", "AB-", "xAB-1"]),
    (
        "grammar",
        {
            "type": "sequence",
            "elements": [const("<"), {"type": "grammar", "grammar": 'root ::= "(" root* ")"'}, const(">")],
        },
        ["<()>", "<((())())>"],
        ["<>", "<()()>", "<(()>", "()"],
    ),
    ("any_text", ANY, ["", "any\ntext é <tool>"], []),
    ("any_text without", {"type": "any_text", "excludes": ["ab", "é"]}, ["", "a", "ba", "acb"], ["ab", "xaby", "é"]),
    ("sequence", {"type": "sequence", "elements": [const("a"), NUMBER, const("b")]}, ["a1b"], ["a1", "1b", "ab"]),
    ("or", {"type": "or", "elements": [const("a"), NUMBER]}, ["a", "12"], ["", "a1"]),
    ("optional", {"type": "optional", "content": const("ab")}, ["", "ab"], ["a", "abab"]),
    ("plus", {"type": "plus", "content": const("ab")}, ["ab", "ababab"], ["", "a"]),
    ("star", {"type": "star", "content": const("ab")}, ["", "ab", "abab"], ["a"]),
    ("repeat", {"type": "repeat", "min": 2, "max": 3, "content": const("ab")}, ["abab", "ababab"], ["ab", "ab" * 4]),
    ("repeat from", {"type": "repeat", "min": 2, "max": -1, "content": const("a")}, ["aa", "a" * 9], ["", "a"]),
    ("repeat never", {"type": "repeat", "min": 0, "max": 0, "content": const("a")}, [""], ["a"]),
    ("tag", {"type": "tag", **SIMPLE}, ["<a>12</a>"], ["<a></a>", "<a>12", "12</a>"]),
    (
        "tag of text",
        {"type": "tag", "begin": "<a>", "content": ANY, "end": "</a>"},
        ["<a></a>", "<a></a</a>"],
        ["<a></a></a>"],
    ),
    (
        "an end that begins as it ends",
        {"type": "tag", "begin": "<", "content": ANY, "end": "aa"},
        ["<aa", "<xaa", "<xaaa", "<aaa"],
        ["<", "<a", "<aaaa"],
    ),
    (
        "several ends",
        {"type": "tag", "begin": "<a>", "content": ANY, "end": ["</a>", ";", ""]},
        ["<a>", "<a>x", "<a>x;", "<a>x</a>"],
        ["<a>x;y", "<a>;;"],
    ),
    ("no end", {"type": "tag", "begin": "<a>", "content": ANY, "end": ""}, ["<a>", "<a>x"], ["", "<a"]),
    (
        "text of few characters",
        {
            "type": "tag",
            "begin": "<a>",
            "content": {"type": "any_text", "max_chars": 3, "excludes": ["x"]},
            "end": "</a>",
        },
        ["<a></a>", "<a>é<b</a>"],
        ["<a>abcd</a>", "<a>x</a>", "<a>a</a></a>"],
    ),
    (
        "text deep in a tag",
        {
            "type": "tag",
            "begin": "<a>",
            "content": {"type": "sequence", "elements": [{"type": "or", "elements": [ANY, const("q;")]}, const("!")]},
            "end": ";",
        },
        ["<a>x!;", "<a>q;!;", "<a>!;"],
        ["<a>x;!;", "<a>x;"],
    ),
    (
        "text in a tag in a tag",
        {
            "type": "tag",
            "begin": "<a>",
            "content": {"type": "tag", "begin": "<b>", "content": ANY, "end": "</b>"},
            "end": "</a>",
        },
        ["<a><b>x</a>y</b></a>"],
        ["<a><b></b></b></a>"],
    ),
    (
        "triggered_tags",
        {"type": "triggered_tags", "triggers": ["<a"], "tags": [SIMPLE, OTHER]},
        ["", "hi", "<", "<a>1</a>", "x<a>1</a>y<ab>z;<ab>;", "</a>", "<<a>1</a>"],
        ["<a", "<a>", "<a>x</a>", "<ac", "<ab>z"],
    ),
    (
        "at_least_one",
        {"type": "triggered_tags", "triggers": ["<a"], "tags": [SIMPLE, OTHER], "at_least_one": True},
        ["<a>1</a>", "<a>1</a>y<ab>z;w"],
        ["", "hi", "x<a>1</a>", "<a>1</a><a"],
    ),
    (
        "stop_after_first",
        {"type": "triggered_tags", "triggers": ["<a"], "tags": [SIMPLE, OTHER], "stop_after_first": True},
        ["", "hi", "x<a>1</a>", "<ab>z;"],
        ["<a>1</a>x", "<a>1</a><ab>;"],
    ),
    (
        "exactly one",
        {
            "type": "triggered_tags",
            "triggers": ["<a>", "<ab"],
            "tags": [SIMPLE, OTHER],
            "stop_after_first": True,
            "at_least_one": True,
        },
        ["<a>1</a>", "<ab>z;"],
        ["", "x", "x<a>1</a>", "<a>1</a>x"],
    ),
    (
        "triggered_tags without",
        {"type": "triggered_tags", "triggers": ["<a"], "tags": [SIMPLE, OTHER], "excludes": ["!", "x<"]},
        ["<a>1</a>", "x", "<ab>!;"],
        ["!", "<a>1</a>!", "x<a>1</a>"],
    ),
    (
        "triggered_tags in a tag",
        {
            "type": "tag",
            "begin": "{",
            "content": {"type": "triggered_tags", "triggers": ["<a"], "tags": [SIMPLE, OTHER]},
            "end": "}",
        },
        ["{}", "{x<ab>};}", "{<a>1</a>}"],
        ["{", "{}}", "{<ab>;"],
    ),
    (
        "tags_with_separator",
        {"type": "tags_with_separator", "tags": [SIMPLE, OTHER], "separator": ", "},
        ["", "<a>1</a>", "<a>1</a>, <ab>;, <a>2</a>"],
        ["<a>1</a>, ", "<a>1</a><a>2</a>", "x"],
    ),
    (
        "tags in a row",
        {"type": "tags_with_separator", "tags": [SIMPLE], "separator": "", "at_least_one": True},
        ["<a>1</a>", "<a>1</a><a>2</a>"],
        ["", "<a>1</a>,<a>2</a>"],
    ),
    (
        "one tag at most",
        {"type": "tags_with_separator", "tags": [SIMPLE], "separator": ",", "stop_after_first": True},
        ["", "<a>1</a>"],
        ["<a>1</a>,<a>1</a>"],
    ),
    (
        "one tag",
        {
            "type": "tags_with_separator",
            "tags": [SIMPLE],
            "separator": ",",
            "stop_after_first": True,
            "at_least_one": True,
        },
        ["<a>1</a>"],
        ["", "<a>1</a>,<a>1</a>"],
    ),
    (
        "dispatch",
        {"type": "dispatch", "rules": [["ab", const("c")], ["x", NUMBER]]},
        ["", "hi a", "abc", "abcabc", "qx12abc "],
        ["ab", "abd", "xx", "abcab"],
    ),
    (
        "dispatch once",
        {"type": "dispatch", "rules": [["ab", const("c")], ["x", NUMBER]], "loop": False, "excludes": ["q"]},
        ["", "hi", "hi abc", "x1"],
        ["abcx1", "abc ", "q", "qabc"],
    ),
    (
        "two formats after a pattern",
        {"type": "dispatch", "rules": [["ab", const("c")], ["ab", const("d")]]},
        ["abc", "abdabc"],
        ["abe"],
    ),
    (
        "dispatch in a tag",
        {"type": "tag", "begin": "(", "content": {"type": "dispatch", "rules": [["ab", const("c")]]}, "end": ")"},
        ["()", "(abc)", "(a)b)"],
        ["(ab)", "(abc"],
    ),
]

# Cases with characters that the vocabulary shared with XGrammar lacks.
OTHER_CASES: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    (
        "deepseek_xml",
        {**XML, "style": "deepseek_xml"},
        [
            '<｜DSML｜parameter name="name" string="true">Bob</｜DSML｜parameter>',
            (
                '<｜DSML｜parameter name="name" string="true">B</｜DSML｜parameter>\n'
                '<｜DSML｜parameter name="age" string="false">3</｜DSML｜parameter>'
            ),
            '<｜DSML｜parameter name="name" string="true">Bob</｜DSML｜parameter>\n',
        ],
        [
            '<｜DSML｜parameter name="name" string="false">"Bob"</｜DSML｜parameter>',
            (
                '<｜DSML｜parameter name="name" string="true">B</｜DSML｜parameter>'
                '<｜DSML｜parameter name="age" string="true">3</｜DSML｜parameter>'
            ),
        ],
    ),
]


ALL = [*CASES, *OTHER_CASES]


@pytest.mark.parametrize(("format_", "good", "bad"), [case[1:] for case in ALL], ids=[case[0] for case in ALL])
def test_texts_of_a_format(format_: dict[str, Any], good: list[str], bad: list[str]) -> None:
    constraint = made(format_)
    assert [text for text in good if not accepts(constraint, spelled(text))] == []
    assert [text for text in bad if accepts(constraint, spelled(text))] == []


def test_a_grammar_in_free_text() -> None:
    content = {"type": "grammar", "grammar": 'root ::= "x" root "y" | [0-9]'}
    tags = [SIMPLE, {"begin": "<ab>", "content": content, "end": ";"}]
    constraint = made({"type": "triggered_tags", "triggers": ["<a"], "tags": tags})
    for text in ("", "a <b", "<ab>xx1yy; <a>1</a><ab>2;"):
        assert accepts(constraint, spelled(text)), text
    for text in ("<a", "<ab>xx1y;", "<a>xx1yy</a>", "<ab>1"):
        assert not accepts(constraint, spelled(text)), text


def test_errors_of_a_grammar_have_its_path() -> None:
    with pytest.raises(GrammarError, match=r"line 2, column 7: format.content.grammar: the rule 'b' is not defined"):
        made({"type": "optional", "content": {"type": "grammar", "grammar": "root ::= a\na ::= b"}})
