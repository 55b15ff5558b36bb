"""Custom tools: one argument, which a grammar or a pattern describes; Lark itself says which texts belong to a grammar."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

import lark
import pytest

import logitkit as lk
from logitkit import ToolCall, Tools
from logitkit.errors import ConfigurationError, GrammarError, UnsupportedSchema
from logitkit.languages import grammar
from logitkit.languages.json_strings import JsonStringOf
from tests.tools.turns import EOS, FORMATS, TOOLS, ids_of, same, vocabulary

# A grammar cannot be followed in strings that are not those of JSON, or that stand in CDATA sections; and in `between`, no text
# has a double quote.
REFUSED = ["shown", "ascii", "sections", "delimited", "delimited_names", "delimited_objects"]
NAMES = [name for name in FORMATS if name not in (*REFUSED, "between")]
SUMS = r"""
start: sum
sum: item (" "? "+" " "? item)*
item: INT | "(" sum ")" | TEXT
TEXT: /"[a\\]?"/ | "\n"
%import common.INT
"""


def custom(syntax: str, definition: str, name: str = "run") -> dict[str, Any]:
    form = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
    return {"type": "custom", "custom": {"name": name, "description": "Run it.", "format": form}}


def accepts(tools: Tools, text: str) -> bool:
    return tools.parse([*ids_of(text, tools.form), EOS], vocabulary(tools.form)).outside_at is None


def belongs(parser: lark.Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


TEXTS = ["".join(some) for n in range(4) for some in product('1+"a\\\n(', repeat=n)]


@pytest.mark.parametrize("name", NAMES)
def test_the_input_belongs_to_the_grammar(name: str) -> None:
    parser = lark.Lark(SUMS, parser="lalr")
    tools = Tools([*TOOLS, custom("lark", SUMS)], FORMATS[name], choice="run")
    found = {text: belongs(parser, text) for text in [*TEXTS, '("a" + (12))', '("a" + (12)']}
    assert 10 < sum(found.values()) < len(found) - 100
    # Each text as `write` spells it, whether it belongs to the grammar or not.
    free = Tools([{"type": "custom", "name": "run"}], FORMATS[name], choice="run")
    for text, good in found.items():
        call = ToolCall("run", {"input": text})
        assert accepts(tools, free.write([call])) == good, text
        if good:
            assert same(
                tools.parse([*ids_of(tools.write([call]), tools.form), EOS], vocabulary(tools.form)).calls, [call]
            )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_it_stands_beside_other_tools_and_text(name: str, choice: str) -> None:
    form = FORMATS[name]
    tools = Tools([*TOOLS, custom("lark", SUMS)], form, choice=choice)
    calls = [
        ToolCall("run", {"input": '"a"+1'}),
        ToolCall("get_weather", {"city": "Bonn", "days": 2}),
        ToolCall("ping", {}),
    ]
    for some in [[call] for call in calls] + ([] if form.separator is None else [calls]):
        assert accepts(tools, tools.write(some))
        assert same(tools.parse(tools.write(some)).calls, some)
    assert accepts(tools, form.text_begin + "Hello") == (choice == "auto")


@pytest.mark.parametrize("name", NAMES)
def test_the_input_matches_a_pattern(name: str) -> None:
    pattern = r'"?[a-c]+|\d\n'
    tools = Tools([custom("regex", pattern)], FORMATS[name], choice="run")
    for text in ("", '"', '"ab', "abc", "1", "1\n", "d", "1\n1", "xab"):
        expected = re.fullmatch(pattern, text) is not None
        call = ToolCall("run", {"input": text})
        assert accepts(tools, Tools([{"type": "custom", "name": "run"}], FORMATS[name]).write([call])) == expected, text


@pytest.mark.parametrize("name", REFUSED)
def test_a_grammar_is_refused_in_other_strings_than_those_of_json(name: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"the tool 'run' has a grammar, which cannot be followed in the format"
    ):
        Tools([custom("lark", SUMS)], FORMATS[name])
    free = Tools([{"type": "custom", "name": "run"}], FORMATS[name])
    assert accepts(free, free.write([ToolCall("run", {"input": '"it\'s" é'})]))


def test_json_strings_of_all_characters() -> None:
    every = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
    constraint = JsonStringOf(grammar(r'root ::= "<" (root | [^<>])* ">"')).constraint(every)
    for code_point in (*range(0x100), 0x2028, 0xFFFD, 0x1F600):
        text = f"<{chr(code_point)}>"
        assert constraint.matches(json.dumps(text, ensure_ascii=False)) == (chr(code_point) not in "<>")
        other = f'"<\\u{code_point:04x}>"'
        assert constraint.matches(other) == (other == json.dumps(text, ensure_ascii=False)), other


def test_what_must_not_follow_a_terminal_in_a_json_string() -> None:
    every = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
    lark = 'start: A (A | B | "\\t" | "\\"" | "\\x11")*\nA: /x[ \\n\\x01]*/\nB: /[0-9]+(\\\\[0-9]+)?/'
    plain = lk.Grammar(lark, every, syntax="lark", lexer="contextual")
    inside = JsonStringOf(grammar(lark, "lark", lexer="contextual")).constraint(every)
    # \x01 and \x11 are written in six characters, of which the first four are equal.
    for text in map("".join, (*product('x\n\t"\\1', repeat=4), *product("x1\n\x01\x11", repeat=3))):
        assert inside.matches(json.dumps("x" + text)) == plain.matches("x" + text), text


def test_both_forms_of_openai_are_read_and_written() -> None:
    nested = custom("lark", SUMS)
    form = {"type": "grammar", "syntax": "lark", "definition": SUMS}
    flat = {"type": "custom", "name": "run", "description": "Run it.", "format": form}
    free = {"type": "custom", "custom": {"name": "note", "format": {"type": "text"}}}
    for tool in (nested, flat):
        assert Tools([tool]).tools[0].grammar == grammar(SUMS, "lark")
    for given in (nested, flat, free):
        constraint = Tools([given]).constraint(vocabulary(FORMATS["hermes"]))
        config = json.loads(json.dumps(lk.to_config(constraint)))
        assert config == {"tools": [given]}
        assert lk.from_config(config, vocabulary(FORMATS["hermes"])) == constraint
    (function,) = Tools([nested]).schemas()
    assert function["function"]["parameters"]["required"] == ["input"]
    assert function["function"]["description"] == f"Run it.\nThe input matches this Lark grammar:\n{SUMS}"


@pytest.mark.parametrize(
    ("form", "error", "message"),
    [
        ("text", ConfigurationError, r"tools\[0\]\['custom'\]\['format'\] is text; allowed are"),
        ({"type": "json"}, ConfigurationError, "allowed are"),
        ({"type": "grammar", "grammar": "x"}, ConfigurationError, "allowed are"),
        (
            {"type": "grammar", "grammar": {"syntax": "gbnf", "definition": "x"}},
            ConfigurationError,
            'may also be "regex"',
        ),
        ({"type": "grammar", "syntax": "lark", "definition": "start: x"}, GrammarError, r"\['format'\]: "),
    ],
)
def test_wrong_formats_are_refused(form: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Tools([{"type": "custom", "custom": {"name": "run", "format": form}}])


def test_what_cannot_be_compiled_is_refused() -> None:
    every = vocabulary(FORMATS["hermes"])
    with pytest.raises(UnsupportedSchema, match="unterminated subpattern"):
        Tools([custom("regex", "(")]).constraint(every)
    with pytest.raises(GrammarError, match="special token '<tool_call>'"):
        JsonStringOf(grammar("start: <tool_call>", "lark"))
