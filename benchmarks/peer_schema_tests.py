"""The schemas in the test suites of peers: is logitkit's verdict on each of their texts that of `jsonschema`?

    python -m benchmarks.peer_schema_tests --xgrammar CLONE --lm-format-enforcer CLONE --llama-cpp CLONE --llguidance CLONE

Each is a clone of the peer's repository, with or without a work tree; any of them may be left out. Test files in Python run
under pytest, while the function that judges a text is recorded: so this runs code of the clone. Those in C++ and Rust are read.

A text that is JSON is judged by its value: it is written again as `JsonSchema` spells it, with members in the schema's order,
as many tests are about white space, or have members in another order. Any other text is judged as it stands.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import re
import signal
import sys
import tempfile
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import pytest

import logitkit as lk
from benchmarks.xgrammar_documents import unpacked
from logitkit.errors import LogitkitError
from tests.json_schema.canonical import canonical
from tests.json_schema.judge import judge, parse

# A test that takes longer, in seconds, measures something.
PATIENCE = 1


class Judged(NamedTuple):
    """A text, with the verdict that the peer's test expects.

    Args:
        schema: The schema as JSON text.
        text: The text.
        expected: Whether the peer is to accept it.
    """

    schema: str
    text: str
    expected: bool


class _StandIn(types.ModuleType):
    """A module of which nothing is needed but its names."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


class _Recorder:
    """A plugin of pytest that puts a function in the place of those that judge."""

    def __init__(self, instead: dict[str, Callable[..., None]]) -> None:
        self.instead = instead

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        for module in {item.module for item in items}:
            for name in set(self.instead) & set(vars(module)):
                setattr(module, name, self.instead[name])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        signal.alarm(PATIENCE)
        try:
            return (yield)
        finally:
            signal.alarm(0)


def _run(file: Path, absent: tuple[str, ...], instead: dict[str, Callable[..., None]]) -> None:
    def too_long(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, too_long)
    known = {name: sys.modules.get(name) for name in absent}
    sys.modules.update({name: _StandIn(name) for name in absent})
    options = ["-q", "--noconftest", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(file.parent)]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            pytest.main([str(file), *options], plugins=[_Recorder(instead)])
    finally:
        for name, module in known.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


def xgrammar(folder: Path) -> list[Judged]:
    """Return what XGrammar's tests of schemas judge."""
    found: dict[Judged, None] = {}

    def judging(schema: Any, instance: Any, is_accepted: bool = True, **_: Any) -> None:
        schema = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema
        if hasattr(instance, "model_dump_json"):
            instance = instance.model_dump_json(round_trip=True)
        text = instance if isinstance(instance, str) else json.dumps(instance)
        found[Judged(json.dumps(schema), text, is_accepted)] = None

    def nothing(*_: Any, **__: Any) -> None:
        pass

    instead = {"check_schema_with_instance": judging, "check_schema_with_grammar": nothing}
    absent = ("xgrammar", "xgrammar.testing")
    _run(folder / "tests/python/test_json_schema_converter.py", absent, instead)
    return list(found)


def lm_format_enforcer(folder: Path) -> list[Judged]:
    """Return what the tests of lm-format-enforcer judge."""
    found: dict[Judged, None] = {}

    def judging(string: str, schema_dict: Any, expect_success: bool, *_: Any, **__: Any) -> None:
        if schema_dict is not None:
            found[Judged(json.dumps(schema_dict), string, expect_success)] = None

    absent = ("interegular", "interegular.fsm", "interegular.patterns", "tests.common")
    here = sys.modules.pop("tests")
    sys.path.insert(0, str(folder))
    try:
        _run(folder / "tests/test_jsonschemaparser.py", absent, {"_test_json_schema_parsing_with_string": judging})
    finally:
        sys.path.remove(str(folder))
        sys.modules["tests"] = here
    return list(found)


_CPP = re.compile(
    r'//[^\n]*|R"([^(\s]*)\((?P<raw>.*?)\)\1"|"(?P<plain>(?:[^"\\]|\\.)*)"|(?P<other>\w+|[{}(),])', re.DOTALL
)


def llama_cpp(folder: Path) -> list[Judged]:
    """Return what the calls `test_schema(name, schema, {texts to pass}, {texts to fail})` of llama.cpp judge."""
    found: dict[Judged, None] = {}
    text = (folder / "tests/test-grammar-integration.cpp").read_text()
    for call in text.split("test_schema(")[2:]:
        # A name, the schema, and then the texts of each pair of braces.
        strings: list[list[str]] = [[]]
        follows = False
        for token in _CPP.finditer(call.split("test_grammar(")[0]):
            if token["other"] == "{":
                strings.append([])
            elif token["other"] == ")" and len(strings) > 1:
                break
            elif token["other"] is None and (token["raw"], token["plain"]) != (None, None):
                written = token["raw"] if token["raw"] is not None else ast.literal_eval(f'"{token["plain"]}"')
                strings[-1][-1:] = [strings[-1][-1] + written] if follows else [*strings[-1][-1:], written]
                follows = True
                continue
            elif token[0].startswith("//"):
                continue
            follows = False
        schema, passing, failing = strings[0][1], strings[1], strings[2]
        found |= dict.fromkeys([Judged(schema, text, True) for text in passing])
        found |= dict.fromkeys([Judged(schema, text, False) for text in failing])
    return list(found)


_RUST_TEXT = re.compile(r'#\[case(?:::\w+)?\((?:r#"(?P<raw>.*?)"#|(?P<plain>"(?:[^"\\]|\\.)*"))\)\]', re.DOTALL)


def llguidance(folder: Path) -> list[Judged]:
    """Return what LLGuidance's tests of string formats judge."""
    found: dict[Judged, None] = {}
    for test in (folder / "parser/tests/test_json_string_format.rs").read_text().split("#[rstest]")[1:]:
        schema = re.search(r"json!\((\{.*?\})\);", test, re.DOTALL)
        expected = re.search(r"json!\(s\), (true|false)\)", test)
        assert schema is not None
        assert expected is not None
        for case in _RUST_TEXT.finditer(test):
            plain = re.sub(r"\\u\{(\w+)\}", lambda code: f"\\U{code[1]:0>8}", case["plain"] or "")
            text = case["raw"] if case["plain"] is None else ast.literal_eval(plain)
            found[Judged(schema[1], json.dumps(text, ensure_ascii=False), expected[1] == "true")] = None
    return list(found)


def verdicts(texts: list[Judged]) -> tuple[Counter[str], Counter[str], list[tuple[Judged, bool]]]:
    """Judge texts: count them by what came of them, count why schemas are refused, and list where `jsonschema` says otherwise."""
    vocabulary = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
    counts: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    different: list[tuple[Judged, bool]] = []
    compiled: dict[str, lk.JsonSchema | None] = {}
    for one in texts:
        if one.schema not in compiled:
            try:
                compiled[one.schema] = lk.JsonSchema(one.schema, vocabulary)
            except LogitkitError as error:
                refused[" ".join(str(error).split())] += 1
                compiled[one.schema] = None
        constraint = compiled[one.schema]
        if constraint is None:
            counts["refused"] += 1
            continue
        validator = judge(json.loads(one.schema))
        try:
            value = parse(one.text)
            valid, text = validator.is_valid(value), canonical(value, validator)
        except ValueError:
            valid, text = False, one.text
        except AttributeError:  # `jsonschema` itself fails where the schema is not valid in its dialect
            counts["unjudged"] += 1
            continue
        counts["peer"] += valid == one.expected
        counts["judged"] += 1
        if constraint.matches(text) != valid:
            different.append((one, valid))
    return counts, refused, different


READERS = {
    "xgrammar": xgrammar,
    "lm-format-enforcer": lm_format_enforcer,
    "llama-cpp": llama_cpp,
    "llguidance": llguidance,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in READERS:
        parser.add_argument(f"--{name}", type=Path, metavar="CLONE")
    given = {name: clone for name in READERS if (clone := getattr(parser.parse_args(), name.replace("-", "_")))}
    print(
        "| suite | texts | schemas refused | verdict of jsonschema | another one | the suite agrees with jsonschema |"
    )
    print("|---|---|---|---|---|---|")
    for name, clone in given.items():
        with tempfile.TemporaryDirectory() as folder:
            files = unpacked(clone, Path(folder), "tests", "parser", "lmformatenforcer")
            counts, refused, different = verdicts(READERS[name](files))
        judged = counts["judged"]
        cells = judged + counts["refused"], counts["refused"], judged - len(different), len(different), counts["peer"]
        print(f"| {name} | " + " | ".join(f"{cell:,}" for cell in cells) + " |")
        for reason, count in refused.most_common():
            print(f"  {count} schemas: {reason[:150]}", file=sys.stderr)
        for one, valid in different:
            print(f"  jsonschema says {valid} of {one.text!r} under {one.schema}", file=sys.stderr)


if __name__ == "__main__":
    main()
