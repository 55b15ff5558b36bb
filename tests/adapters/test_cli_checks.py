"""`logitkit check-regex`, `check-schema`, `check-tools` and `explain`: what they print, in words and as JSON."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import logitkit as lk
from logitkit_adapters.cli import main
from logitkit_adapters.demo import model_dir
from tests.adapters.cli_process import start

SCHEMA = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
        "phone": {"type": "string", "format": "phone"},
    },
    "required": ["age"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "save", "parameters": SCHEMA}}]
CALL = '<tool_call>\n{"name": "save", "arguments": {"age": 7}}\n</tool_call>'
FACTS = {"vocabulary", "states", "classes", "bytes", "compile_seconds", "examples", "warnings", "legal", "explanation"}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    for name, content in (("schema", SCHEMA), ("tools", TOOLS)):
        (tmp_path / name).write_text(json.dumps(content), "utf-8")
    return {"schema": str(tmp_path / "schema"), "tools": str(tmp_path / "tools"), "page": str(tmp_path / "page.html")}


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    """Return the JSON that a command prints."""
    assert main([*arguments, "--json"]) == status
    out, err = capsys.readouterr()
    assert err == ""
    assert out.isascii()
    return json.loads(out)


def test_a_pattern_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-regex", r"\d{4}-(0[1-9]|1[0-2])", "--text", "2024-13"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["states", "classes", "memory", "compiled"]
    examples = [line.removeprefix("example   ") for line in lines if line.startswith("example")]
    assert len(examples) == 3
    assert all(re.fullmatch(r"'\d{4}-(0[1-9]|1[0-2])'", example) for example in examples)
    assert any(line.startswith("warning   \\d allows digits of all scripts") for line in lines)
    caret = next(number for number, line in enumerate(lines) if line.strip() == "^")
    assert lines[caret - 1][lines[caret].index("^")] == "3"
    assert "Regex refuses token" in out


@pytest.mark.parametrize(("text", "status"), [("ab", 0), ("a", 1), ("abc", 1)])
def test_a_text_is_legal_only_if_it_is_whole(text: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    report = printed(capsys, "check-regex", "ab", "--text", text, status=status)
    assert report.keys() == FACTS
    assert report["legal"] is (status == 0)
    assert report["explanation"]["complete"] is (status == 0)
    assert report["examples"] == ["ab"] * 3
    refusal = next((step["refusal"] for step in report["explanation"]["steps"] if step["refusal"]), None)
    assert (refusal is None) == (text != "abc")


def test_without_a_text_there_is_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    report = printed(capsys, "check-regex", "[0-9]")
    assert (report["legal"], report["explanation"], report["warnings"]) == (None, None, [])
    assert report["states"] > 0
    assert 0 < report["classes"] <= report["vocabulary"] == 1280
    assert 0 < report["compile_seconds"] < 60


@pytest.mark.parametrize(
    ("pattern", "warnings"),
    [
        (r"\w+", [r"\w allows letters", "no limit on its length"]),
        (r"(?a)\d", []),
        (r"[0-9]{1,3}", []),
        (r"yes|no", ["not in a group"]),
        (r"(yes|no)!", []),
        (r"(?:yes|no)", []),
        (r"(a[\s]{2}){2,}", [r"\s allows white space", "no limit"]),
        (r"\\d", []),
    ],
)
def test_warnings_of_patterns(pattern: str, warnings: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "check-regex", pattern)["warnings"]
    assert len(found) == len(warnings)
    assert all(part in said for part, said in zip(warnings, found, strict=True))


def test_a_schema_from_a_file_and_from_standard_input(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = printed(capsys, "check-schema", files["schema"], "--text", '{"age":7}')
    assert report["legal"] is True
    assert len(report["warnings"]) == 1
    assert "the format 'phone' is not known" in report["warnings"][0]
    for example in report["examples"]:
        jsonschema.validate(json.loads(example), SCHEMA)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"propertys": {"a": True}, "type": "boolean"})))
    report = printed(capsys, "check-schema", "-", "--text", "nil", status=1)
    assert any("resembles 'properties'" in warning for warning in report["warnings"])


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("[0-9]{3}", "may stand anywhere in the text; for the whole text, write '^(?:[0-9]{3})$'"),
        ("a|b", "may stand anywhere"),
        ("^a|b$", "has anchors in only some of its alternatives"),
        ("^a|^b$", "has anchors in only some"),
        ("^(a|b)$", None),
        ("^a$|^b$", None),
        ("(?:^a|^b)$", None),
        ("^a", None),
        ("a$", None),
    ],
)
def test_patterns_of_schemas_are_searched(
    pattern: str, said: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}, "required": ["a"]}
    tools = [{"type": "function", "function": {"name": "save", "parameters": schema}}]
    for kind, content in (("schema", schema), ("tools", tools)):
        file = tmp_path / kind
        file.write_text(json.dumps(content), "utf-8")
        warnings = printed(capsys, f"check-{kind}", str(file))["warnings"]
        assert len(warnings) == (said is not None)
        if said is not None:
            assert f"'pattern' at #/properties/a: {pattern!r} " in warnings[0]
            assert said in warnings[0]
            assert warnings[0].startswith("save: ") == (kind == "tools")
    # The advice is right: a text around the pattern is accepted.
    texts = ("xax", "xbx", "ax", "xb", "x123x")
    assert said is None or any(re.search(pattern, text) and not re.fullmatch(pattern, text) for text in texts)


def test_tools_in_a_format(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "check-tools", files["tools"], "--text", CALL)["legal"] is True
    wrong = CALL.replace("7", "700")
    refused = printed(capsys, "check-tools", files["tools"], "--format", "hermes", "--text", wrong, status=1)
    assert next(s["refusal"] for s in refused["explanation"]["steps"] if s["refusal"])["byte"] == wrong.index("700") + 2
    assert main(["check-tools", files["tools"], "--format", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_the_examples_of_tools_are_calls(capsys: pytest.CaptureFixture[str]) -> None:
    given = json.dumps(TOOLS)
    for example in printed(capsys, "check-tools", given)["examples"]:
        calls = lk.Tools(TOOLS, format="hermes").parse(example).calls
        assert calls
        assert all(jsonschema.Draft202012Validator(SCHEMA).is_valid(call.arguments) for call in calls)
    assert printed(capsys, "check-tools", given, "--text", "An answer.", status=1)["legal"] is False
    assert printed(capsys, "check-tools", given, "--choice", "auto", "--text", "An answer.")["legal"] is True
    assert printed(capsys, "check-tools", given, "--choice", "none", "--text", CALL, status=1)["legal"] is False
    assert printed(capsys, "check-tools", given, "--choice", "save", "--text", CALL)["legal"] is True


def test_a_schema_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    given = json.dumps(SCHEMA)
    assert printed(capsys, "check-schema", given, "--text", '{"age":7}')["legal"] is True
    assert printed(capsys, "check-schema", f" {given}", "--text", '{"age":700}', status=1)["legal"] is False
    assert printed(capsys, "explain", "--schema", given, "--text", '{"age":7}')["legal"] is True
    assert printed(capsys, "check-schema", "true", "--text", "[1]")["legal"] is True
    assert main(["check-schema", "false "]) == 2
    assert "no value satisfies the schema" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("whitespace", "text", "legal"),
    [
        ("compact", '{"age": 7}', False),
        ("spaced", '{"age": 7}', True),
        ("spaced", '{\n  "age": 7\n}', False),
        ("bounded", '{\n  "age": 7\n}', True),
    ],
)
def test_white_space(whitespace: str, text: str, legal: bool, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["check-schema", json.dumps(SCHEMA)], ["explain", "--schema", json.dumps(SCHEMA)]):
        report = printed(capsys, *command, "--whitespace", whitespace, "--text", text, status=int(not legal))
        assert report["legal"] is legal


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("check-regex", set()),
        ("check-schema", {"--whitespace"}),
        ("check-tools", {"--format", "--choice"}),
        ("check-grammar", {"--syntax", "--start"}),
        ("explain", {"--whitespace", "--format", "--choice", "--syntax", "--start"}),
    ],
)
def test_a_command_has_its_own_options_only(
    command: str, options: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    listed = {*re.findall(r"--[a-z]+", capsys.readouterr().out)}
    assert listed & {"--whitespace", "--format", "--choice", "--syntax", "--start"} == options


def test_a_tokenizer_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "check-regex", "a", "--tokenizer", str(model_dir()))["vocabulary"] == 1280


def test_explain_prints_the_table_and_writes_a_page(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--schema", files["schema"], "--text", '{"age":<b>', "--html", files["page"]]) == 1
    out, _ = capsys.readouterr()
    assert "JsonSchema refuses token" in out
    assert re.search(r"^#  token +legal", out, re.MULTILINE)
    page = Path(files["page"]).read_text("utf-8")
    parser = HTMLParser()
    parser.feed(page)
    assert page.startswith("<!doctype html>")
    assert "&lt;" in page
    assert page.count("<b>") == page.count("</b>")


def test_explain_as_json(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    report = printed(capsys, "explain", "--regex", "(ab)+", "--text", "abab")
    assert report["legal"] is True
    assert {"processor", "steps", "complete", "completion", "token_bytes"} <= report.keys()
    report = printed(capsys, "explain", "--tools", files["tools"], "--text", CALL[:20], status=1)
    assert (report["legal"], report["complete"]) == (False, False)
    assert all(step["refusal"] is None for step in report["steps"]), "a legal beginning"


def test_explain_is_in_colour_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")

    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["explain", "--regex", "ab", "--text", "ac"]) == 1
    assert "\x1b[" in screen.getvalue()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check-regex"], "required: PATTERN"),
        (["check-regex", "a{2,1}"], "at position"),
        (["check-regex", "a(?!a)a"], "no text"),
        (["check-regex", "caf\udce9"], "not valid UTF-8 at position 3"),
        (["check-regex", "a", "--text", "\udce9"], "not valid UTF-8 at position 0"),
        (["check-regex", "a", "--tokenizer", "/nowhere"], "--tokenizer is '/nowhere', which is not a folder"),
        (["check-regex", "a", "--tokenizer", "docs"], "'docs' has no tokenizer that transformers can read"),
        (["check-schema", "/nowhere"], "/nowhere cannot be read"),
        (["check-tools", "/nowhere"], "/nowhere cannot be read"),
        (["check-grammar"], "required: FILE"),
        (["check-grammar", "/nowhere"], "/nowhere cannot be read"),
        (["check-regex", "a", "--start", "a"], "unrecognized arguments: --start a"),
        (
            ["explain", "--regex", "a", "--syntax", "lark", "--text", "a"],
            "--syntax cannot be used for a regex, only for --gr",
        ),
        (
            ["explain", "--schema", "{}", "--format", "hermes", "--choice", "auto", "--text", "a"],
            "--format and --choice cannot",
        ),
        (["check-schema", '{"type": 5'], "Expecting ',' delimiter"),
        (["check-tools", "[1"], "[1 is not JSON"),
        (["check-tools", json.dumps(TOOLS), "--choice", "load"], "choice is 'load'"),
        (["check-schema", "{}", "--whitespace", "any"], "invalid choice: 'any'"),
        (["explain", "--regex", "a"], "required: --text"),
        (["explain", "--text", "a"], "one of the arguments --regex --schema --tools --grammar is required"),
        (["explain", "--regex", "a", "--schema", "b", "--text", "a"], "not allowed with"),
        (["explain", "--regex", "a", "--text", "a", "--html", "/nowhere/page"], "/nowhere/page cannot be written"),
        (["demo", "--html", "/nowhere/page"], "/nowhere/page cannot be written"),
        (["doctor", "now"], "unrecognized arguments: now"),
    ],
)
def test_wrong_use_is_one_message_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, *rest = err.splitlines()
    assert first.startswith("logitkit")
    assert message in first
    assert all(line.startswith("    ") for line in rest), "a pattern with a caret at most"


@pytest.mark.parametrize("content", ["{", "[1]", "\ud800", '{"type": "nonsense"}', "[" * 5000])
@pytest.mark.parametrize("command", ["check-schema", "check-tools"])
def test_a_wrong_file_is_one_message(
    content: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong"
    file.write_bytes(content.encode("utf-8", "surrogatepass"))
    assert main([command, str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err


def test_in_a_process_of_its_own_with_pipes(files: dict[str, str]) -> None:
    process = start("check-schema", files["schema"], "--json", "--text", '{"age":100}')
    out, err = process.communicate()
    assert (process.returncode, err) == (1, "")
    assert json.loads(out)["legal"] is False
    with start("explain", "--schema", files["schema"], "--text", "[]") as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        err = process.stderr.read()
    assert (process.returncode, err) == (141, "")


def test_help_loads_nothing() -> None:
    process = start("explain", "--help", before="import sys; sys.modules['torch'] = sys.modules['transformers'] = None")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "--html" in out


def test_an_output_that_is_not_utf_8_gets_escapes() -> None:
    process = start("explain", "--regex", "東+", "--text", "東京", PYTHONIOENCODING="ascii")
    out, err = process.communicate()
    assert (process.returncode, err) == (1, "")
    assert "\\u6771" in out


FULL_DISK = """
import io, sys
class Full(io.StringIO):
    def write(self, text): raise OSError(28, "No space left on device")
sys.stdout = Full()
"""


def test_a_full_disk_is_not_an_illegal_text() -> None:
    process = start("check-regex", "a", before=FULL_DISK)
    err = process.communicate()[1]
    assert (process.returncode, err) == (
        2,
        "logitkit: the output cannot be written: [Errno 28] No space left on device\n",
    )
