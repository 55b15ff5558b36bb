"""Compile the functions of the Berkeley Function-Calling Leaderboard, and read its expected calls.

`python -m tests.tools.gorilla_calls FOLDER [FORMAT...]` reads the folder `bfcl_eval/data` of the package `bfcl-eval`. For each
question it compiles all functions as tools. `jsonschema` says which expected calls satisfy the parameters of their functions:
those must be accepted and read back, whole and in random pieces, and the others must be refused. It prints a table in Markdown.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema

from logitkit import ToolCall, Tools
from logitkit.errors import ConfigurationError, LogitkitError
from tests.tools.turns import same, vocabulary

# The leaderboard names types as Python and Java do; these are its own translations, but `any`, which stands for any value.
TYPES = {
    **dict.fromkeys(("float", "double"), "number"),
    **dict.fromkeys(("bool", "Boolean"), "boolean"),
    **dict.fromkeys(("list", "tuple", "ArrayList", "Array", "Queue", "Stack"), "array"),
    **dict.fromkeys(("dict", "HashMap", "Hashtable"), "object"),
    **dict.fromkeys(("byte", "short", "long", "Bigint"), "integer"),
    **dict.fromkeys(("char", "String"), "string"),
}
# The most characters of a piece of text that is streamed.
LONGEST_PIECE = 12


def schema_of(given: Any) -> Any:
    """Return a schema of the leaderboard in the words of JSON Schema."""
    if isinstance(given, list):
        return [schema_of(one) for one in given]
    if not isinstance(given, dict):
        return given
    found = {
        key: {name: schema_of(one) for name, one in value.items()} if key == "properties" else schema_of(value)
        for key, value in given.items()
        if key not in ("enum", "default", "const", "example")
    }
    found |= {key: given[key] for key in ("enum", "const") if key in given}
    kind = given.get("type")
    if isinstance(kind, str):
        if kind in ("any", "Any"):
            del found["type"]
        else:
            found["type"] = TYPES.get(kind, kind)
    return found


def questions(folder: Path) -> Iterator[tuple[str, list[dict[str, Any]], list[Any]]]:
    """Yield the name of each file, with the functions of a question and its expected calls; a question may have none."""
    for file in sorted(folder.glob("BFCL_v*.json")):
        answers = folder / "possible_answer" / file.name
        expected = {one["id"]: one["ground_truth"] for one in _lines(answers)} if answers.exists() else {}
        for question in _lines(file):
            if functions := question.get("function"):
                yield file.stem.partition("_v4_")[2], functions, expected.get(question["id"], [])
    for file in sorted((folder / "multi_turn_func_doc").glob("*.json")):
        for function in _lines(file):
            yield "functions of several turns", [function], []


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text("utf-8").splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            # One file is a single document, without questions.
            return
        if (isinstance(found, dict) and "id" in found) or "name" in found:
            yield found


def chosen(options: list[Any], draw: random.Random) -> Any:
    """Return one of the values that the leaderboard accepts; in objects, each member has a list of its own."""
    kept = [option for option in options if option != ""] or options
    return _settled(draw.choice(kept), draw) if kept else []


def _settled(value: Any, draw: random.Random) -> Any:
    if isinstance(value, dict):
        left = {name: options for name, options in value.items() if not (isinstance(options, list) and "" in options)}
        return {name: chosen(some, draw) if isinstance(some, list) else some for name, some in left.items()}
    if isinstance(value, list):
        return [_settled(one, draw) for one in value]
    return value


def calls_of(expected: list[Any], draw: random.Random) -> list[ToolCall]:
    """Return the expected calls of a question, with one of the accepted values for each argument that is not optional."""
    return [
        ToolCall(name, {key: chosen(options, draw) for key, options in given.items() if "" not in options})
        for call in expected
        for name, given in call.items()
    ]


def check(functions: list[dict[str, Any]], expected: list[Any], form: str, found: Counter[str]) -> str | None:
    """Compile the functions of a question and read its calls; return what is wrong, if anything is."""
    schemas: dict[str, Mapping[str, Any]] = {one["name"]: schema_of(one["parameters"]) for one in functions}
    given = [
        {"type": "function", "function": {"name": name, "description": "", "parameters": schema}}
        for name, schema in schemas.items()
    ]
    found["functions"] += len(given)
    try:
        tools = Tools(given, form, choice="required")
        tools.constraint(vocabulary(tools.form))
    except LogitkitError as error:
        found["questions refused"] += 1
        return f"refused: {error}"
    draw = random.Random(str(sorted(schemas)))
    for calls in (calls_of(expected, draw), *([call] for call in calls_of(expected, draw))):
        if not calls or any(call.name not in schemas for call in calls):
            continue
        if len(calls) > 1 and tools.form.separator is None:
            found["turns of several calls, of which the format allows one"] += 1
            continue
        problem = check_calls(calls, schemas, tools, draw, found)
        if problem is not None:
            return problem
    return None


def check_calls(
    calls: list[ToolCall],
    schemas: Mapping[str, Mapping[str, Any]],
    tools: Tools,
    draw: random.Random,
    found: Counter[str],
) -> str | None:
    """Write calls and read them; return what is wrong, if anything is."""
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    # A tool takes the arguments that it lists.
    valid = all(
        jsonschema.Draft202012Validator(
            {**schemas[call.name], "additionalProperties": False}, format_checker=checker
        ).is_valid(dict(call.arguments))
        for call in calls
    )
    try:
        text = tools.write(calls)
    except ConfigurationError as error:
        if valid and "would be read as" in str(error):
            # In raw text, the string "5" of a member that may be anything is the number 5.
            found["turns valid, but another value in raw text"] += 1
            return None
        found["turns that are not valid, and not written" if not valid else "turns valid, and not written"] += 1
        return f"a valid call is not written: {error}" if valid else None
    turn = tools.parse(text)
    stream, at = tools.stream(), 0
    while at < len(text):
        size = draw.randint(1, LONGEST_PIECE)
        stream.feed(text[at : at + size])
        at += size
    if stream.finish()[1] != turn:
        return f"{text!r} is read otherwise in pieces"
    accepted = turn.problem is None and turn.outside_at is None and turn.complete
    found["turns valid, and read back" if valid else "turns that are not valid, and refused"] += 1
    if valid:
        return None if accepted and same(turn.calls, calls) else f"{text!r} is valid and refused at {turn.outside_at}"
    return f"{text!r} is not valid and accepted" if accepted and same(turn.calls, calls) else None


def main(folder: Path, forms: list[str]) -> None:
    """Print the table, and what is wrong or refused."""
    for form in forms or ["hermes", "qwen_coder", "llama3_json"]:
        tables: dict[str, Counter[str]] = {}
        for name, functions, expected in questions(folder):
            found = tables.setdefault(name, Counter())
            found["questions"] += 1
            problem = check(functions, expected, form, found)
            if problem is not None:
                found["refused" if problem.startswith("refused") else "wrong"] += 1
                print(f"{form}, {name}: {problem[:600]}", flush=True)
        total: Counter[str] = sum(tables.values(), Counter())
        print(f"\n{form}: {json.dumps(total)}\n", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
