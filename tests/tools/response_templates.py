"""Compare formats that are read from response templates with `transformers.utils.chat_parsing.parse_response`.

`python -m tests.tools.response_templates FILE...` reads response templates from JSON files: one template, an object of several by
name, or a `tokenizer_config.json` with one. It prints a table in Markdown: read and compared, or why not.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from transformers.utils.chat_parsing import ResponseParser, parse_response
from transformers.utils.chat_parsing.content_parsers import CONTENT_PARSERS

from logitkit import ToolCall, ToolFormat, Tools, Vocabulary
from logitkit.errors import ConfigurationError
from logitkit.runtime.walk import Walk
from logitkit.tools.turn import Turn

__all__ = ["HAS_CALL_LISTS", "compared", "difference", "ends_of", "tools_of", "written_turns"]

# From version 5.24 on, transformers has a parser of calls as Python writes them.
HAS_CALL_LISTS = "python-call-list" in CONTENT_PARSERS

TEXT = {"type": "string"}
WEATHER = {"city": TEXT, "days": {"type": "integer"}, "unit": {"enum": ["C", "F"], "type": "string"}}
NOTE: dict[str, Any] = {
    "text": {**TEXT, "maxLength": 30},
    "tags": {"type": "array", "items": TEXT},
    "ok": {"type": "boolean"},
    "rate": {"type": "number"},
    "none": {"type": "null"},
    "mixed": {"type": ["string", "integer"]},
    "more": {"type": "object", "additionalProperties": True},
    "anything": {},
}
# Strings that a parser is most likely to read otherwise, and texts that end or begin something in one template or another.
AWKWARD = (
    *(
        "",
        " ",
        "plain",
        "two words",
        "5",
        "-0",
        "1e5",
        "true",
        "null",
        "None",
        "NaN",
        '{"a": 1}',
        "[1]",
        '"',
        '"q"',
        "'",
        "\\",
    ),
    *(
        "\\n",
        "a\nb",
        "\n",
        " x ",
        "x\t",
        "\x1c",
        "\x00",
        "é",
        "😀",
        "\u2028x",
        "{",
        "}",
        "]",
        "a, b=2)",
        "</",
        "<x>",
        "<|",
    ),
    *("</call>", "<call>", "</tool_call>", "<tool_call>", "</arg>", "</parameter>", "<parameter=x>", "</function>"),
    *("<think>", "</think>", "<|im_end|>", "</s>", "<|end|>", "<|call|>", "[TOOL_CALLS]", "<|END_ACTION|>", "END"),
)
LONGEST_SAMPLE = 160


def ends_of(template: Mapping[str, Any]) -> list[str]:
    """Return the texts that may follow a turn: none, and the literal ends of the text of an answer."""
    content = template["fields"].get("content", {})
    close = content.get("close", [])
    found = [close] if isinstance(close, str) else list(close)
    return ["", *found, *re.findall(r"<\|\w+\|>|</\w+>", content.get("close_pattern", "").replace("\\", ""))]


def types_values(template: Mapping[str, Any]) -> bool:
    """Whether the template says what the values of tags are; if not, the schemas of tools do."""
    calls = template["fields"]["tool_calls"]
    parser = calls.get("content_args", {}).get("value_parser") or {}
    return calls.get("content") != "xml-inline" or parser.get("name") == "json"


def tools_of(template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return tools that the parser of a template can type."""
    calls = template["fields"]["tool_calls"]
    left_out: set[str] = set()
    if calls.get("content") == "python-call-list":
        # A name that an object repeats is an error there.
        left_out = {"more", "anything"}
    elif not types_values(template):
        left_out = {"anything"}
    members = {name: schema for name, schema in NOTE.items() if name not in left_out}
    schemas = {"get_weather": WEATHER, "save_note": members, "ping": {}}
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": "A tool.",
                "parameters": {"type": "object", "properties": properties, "additionalProperties": False},
            },
        }
        for name, properties in schemas.items()
    ]


def difference(template: Mapping[str, Any], text: str, turn: Turn, pieces: list[str] | None = None) -> str | None:
    """Return what transformers reads otherwise in a text, whatever ends the turn; None if it reads the same.

    Args:
        template: The response template.
        text: The text of the turn.
        turn: The turn that `Tools.parse` returns.
        pieces: The text in pieces, to be read as a stream; None: it is read as a whole.
    """
    found = []
    for end in ends_of(template):
        try:
            message = _message(template, text, end, pieces)
        except ValueError as error:
            found.append(f"with the end {end!r}: {error}")
            continue
        same = _comparable(_calls(message)) == _comparable([(call.name, call.arguments) for call in turn.calls])
        fields = template["fields"]
        if "content" in fields:
            same = same and (message.get("content") or "").strip() == turn.text.strip()
        named = next((name for name in ("reasoning_content", "thinking", "reasoning") if name in fields), None)
        if named is not None and turn.reasoning is not None:
            same = same and (message.get(named) or "").strip() == turn.reasoning.strip()
        if same:
            return None
        found.append(f"with the end {end!r}: {message!r} in place of {turn!r}")
    return f"{text!r} is read otherwise, " + "; ".join(found)


def _message(template: Mapping[str, Any], text: str, end: str, pieces: list[str] | None) -> dict[str, Any]:
    tools: Any = None if types_values(template) else tools_of(template)
    if pieces is None:
        return dict(parse_response(text + end, dict(template), prefix="", tools=tools))
    parser = ResponseParser(dict(template), prefix="", tools=tools)
    for piece in [*pieces, end]:
        parser.feed(piece)
    return dict(parser.finalize()[0])


def _calls(message: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found = [call.get("function", call) for call in message.get("tool_calls", [])]
    return [(call["name"], call["arguments"]) for call in found]


def _comparable(value: Any) -> Any:
    """Return a value in which equal numbers are equal, and true is not 1."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number", float(value)
    if isinstance(value, list | tuple):
        return [_comparable(item) for item in value]
    return {k: _comparable(v) for k, v in value.items()} if isinstance(value, dict) else value


def compared(template: Mapping[str, Any], form: ToolFormat, seed: int, rounds: int) -> Counter[str]:
    """Compare what is written and sampled in a format with what transformers reads, and return how much of each there was.

    Args:
        template: The response template.
        form: The format that was read from it.
        seed: Where the random calls begin.
        rounds: How many sets of calls are written, and how many turns are sampled of each kind.
    """
    draw, counts = random.Random(seed), Counter[str]()
    schemas = tools_of(template)
    # Until version 5.23, a stream takes the end of what it has for `$`.
    streams = HAS_CALL_LISTS or "$" not in json.dumps(template)
    for text, turn in (*written_turns(schemas, form, draw, rounds, counts), *_sampled(schemas, form, draw, rounds)):
        cuts = sorted(draw.sample(range(len(text) + 1), min(3, len(text))))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        for problem in (difference(template, text, turn), streams and difference(template, text, turn, pieces)):
            assert not problem, (problem, template)
        counts["turns compared"] += 1
        counts["calls compared"] += len(turn.calls)
    return counts


def written_turns(
    schemas: list[dict[str, Any]], form: ToolFormat, draw: random.Random, rounds: int, counts: Counter[str]
) -> Iterator[tuple[str, Turn]]:
    """Yield the texts of random sets of calls, with what is read of each."""
    plain = Tools(schemas, form)
    thinking = Tools(schemas, form, reasoning=True) if form.reasoning_end is not None else plain
    for number in range(rounds):
        tools = thinking if number % 3 == 2 else plain
        count = 1 if form.separator is None else draw.choice((1, 1, 2, 3))
        calls = [_call(schemas, form, draw) for _ in range(count)]
        try:
            text = tools.write(calls)
        except ConfigurationError:
            counts["sets of calls that cannot be written"] += 1
            continue
        if tools is not plain:
            text = f"{form.reasoning_begin}Why?\n{form.reasoning_end}{text}"
        turn = tools.parse(text)
        assert (turn.problem, turn.outside_at) == (None, None), (text, turn)
        assert _comparable([(c.name, c.arguments) for c in turn.calls]) == _comparable(
            [(c.name, c.arguments) for c in calls]
        )
        yield text, turn


def _call(schemas: list[dict[str, Any]], form: ToolFormat, draw: random.Random) -> ToolCall:
    function = draw.choice(schemas)["function"]
    members = function["parameters"]["properties"]
    arguments = {name: _value(name, draw) for name in members if draw.random() < 0.6}
    has_id = any("{id}" in text for text in (form.call_begin, form.name_end, form.call_end))
    return ToolCall(function["name"], arguments, id="".join(draw.choices("abXY01", k=9)) if has_id else None)


def _value(name: str, draw: random.Random, depth: int = 0) -> Any:
    text = draw.choice(AWKWARD) + (draw.choice(AWKWARD) if draw.random() < 0.3 else "")
    match name:
        case "days":
            return draw.choice((1, -5, 10**15))
        case "unit":
            return draw.choice("CF")
        case "ok":
            return draw.random() < 0.5
        case "rate":
            return draw.choice((0.5, 2, -1e-7))
        case "none":
            return None
        case "mixed":
            return draw.choice((5, "x", text))
        case "tags":
            return [text, draw.choice(AWKWARD)]
        case "more" | "anything" if depth < 2 and (name == "more" or draw.random() < 0.5):
            return {draw.choice(AWKWARD) + letter: _value("anything", draw, depth + 1) for letter in "ab"}
        case _:
            return text


def _sampled(
    schemas: list[dict[str, Any]], form: ToolFormat, draw: random.Random, rounds: int
) -> Iterator[tuple[str, Turn]]:
    """Yield turns that are sampled from the constraint, where awkward texts and markers are likely."""
    vocabulary = _vocabulary(form.tokens)
    ids, eos = np.arange(vocabulary.size), vocabulary.eos_ids[0]
    weights = np.full(vocabulary.size, 0.02)
    weights[[*b'"}]<>,{[: \n']], weights[256:eos], weights[eos], weights[eos + 1 :] = 1.0, 0.35, 0.7, 1.5
    for choice in ("required", "auto"):
        tools = Tools(schemas, form, choice=choice)
        start = Walk.start(tools.constraint(vocabulary, closing=LONGEST_SAMPLE).automaton, LONGEST_SAMPLE)
        for _ in range(rounds):
            walk, tokens = start, list[int]()
            while True:
                legal = walk.legal_ids(ids)
                assert len(legal), tokens
                token = draw.choices(legal.tolist(), weights[legal].tolist())[0]
                if token == eos:
                    break
                tokens.append(token)
                walk = walk.after(token)
            turn = tools.parse(tokens, vocabulary)
            # A number may be too large for Python.
            if turn.problem is None:
                yield _text(tokens, vocabulary), turn


@cache
def _vocabulary(special: tuple[str, ...]) -> Vocabulary:
    """All bytes, awkward texts, EOS, and the special tokens of a format."""
    texts = [text.encode() for text in AWKWARD if len(text.encode()) > 1 and text not in special]
    tokens = [*(bytes([byte]) for byte in range(256)), *texts]
    eos = len(tokens)
    named = {name: eos + 1 + number for number, name in enumerate(special)}
    return Vocabulary([*tokens, None, *[None] * len(special)], eos_ids=[eos], special=named)


def _text(tokens: list[int], vocabulary: Vocabulary) -> str:
    names = {token: name.encode() for name, token in vocabulary.special.items()}
    return b"".join(names.get(token) or vocabulary.tokens[token] or b"" for token in tokens).decode()


def main(paths: list[str]) -> None:
    """Print a table of the response templates in some files."""
    print("| response template | result | calls compared, or the reason |\n|---|---|---|")
    for path in map(Path, paths):
        for name, template in _templates(path.stem, json.loads(path.read_text(encoding="utf-8"))):
            try:
                form = ToolFormat.from_response_template(template)
                if template["fields"]["tool_calls"].get("content") == "python-call-list" and not HAS_CALL_LISTS:
                    print(f"| `{name}` | read | this version of transformers does not read it |")
                    continue
                counts = compared(template, form, 0, 40)
                print(f"| `{name}` | read | {counts['calls compared']} |")
            except ConfigurationError as error:
                print(
                    f"| `{name}` | not read | {str(error).rpartition('response template: ')[2].partition('. Give')[0]} |"
                )
            except AssertionError as error:
                print(f"| `{name}` | different | {str(error)[:300]} |")


def _templates(name: str, given: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if "response_template" in given:
        given = given["response_template"]
    if "fields" in given:
        yield name, given
    else:
        yield from given.items()


if __name__ == "__main__":
    main(sys.argv[1:])
