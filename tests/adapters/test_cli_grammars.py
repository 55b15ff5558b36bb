"""`logitkit check-grammar` and `explain --grammar`: the syntax, the rule of the whole text, verdicts, warnings and errors."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from logitkit_adapters.cli import main
from tests.adapters.cli_process import start

LISTS = r"""root   ::= "[" (item ("," item)*)? "]"
item   ::= number | root
number ::= [0-9] | [1-9] [0-9]
"""
SUMS = """start: item ("+" item)*
item: DIGIT | "(" start ")"
DIGIT: /[0-9]/
"""
UNUSED = 'other: "x"\nspace: " "\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lists.gbnf"


@pytest.mark.parametrize(
    ("text", "status", "verdict"),
    [
        ("[1,[23,[]]]", 0, "The output is legal and complete for Grammar."),
        ("[1,[23", 1, "The output is the beginning of a legal text for Grammar, but not complete."),
        ("", 1, "The output is the beginning of a legal text for Grammar, but not complete."),
        ("[1,[23,x]]", 1, "Grammar refuses token "),
        ("[]]", 1, "Grammar refuses token "),
    ],
)
def test_a_text_is_legal_only_if_it_is_whole(
    text: str, status: int, verdict: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(LISTS, "utf-8")
    assert main(["check-grammar", str(file), "--text", text]) == status
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    facts = ["states", "classes", "memory", "compiled", "example", "example", "example"]
    assert [line.split()[0] for line in lines[:7]] == facts
    for line in lines[4:7]:
        assert isinstance(json.loads(line.removeprefix("example   ").strip("'")), list)
    assert lines[7].startswith(verdict)
    assert main(["explain", "--grammar", str(file), "--text", text]) == status
    assert verdict in capsys.readouterr().out


def test_without_a_text_there_is_no_verdict(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(LISTS, "utf-8")
    assert main(["check-grammar", str(file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["legal"], report["explanation"], report["warnings"]) == (None, None, [])
    assert report["states"] > 0
    assert 0 < report["classes"] <= report["vocabulary"] == 1280


def test_a_warning_is_printed_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(SUMS + UNUSED, "utf-8")
    assert main(["check-grammar", str(file), "--syntax=lark", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["warnings"]
    assert ("other" in first, "space" in second) == (True, True)
    assert main(["check-grammar", str(file), "--syntax=lark"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert [line for line in out.splitlines() if "not used" in line] == [f"warning   {first}", f"warning   {second}"]


@pytest.mark.parametrize(
    ("name", "grammar", "options", "text", "status"),
    [
        ("sums.lark", SUMS, [], "1+(2+3)", 0),
        ("SUMS.LARK", SUMS, [], "1+(2+3", 1),
        ("sums.txt", SUMS, ["--syntax", "lark"], "(1)", 0),
        ("sums", SUMS, ["--syntax=lark", "--start=item"], "1", 0),
        ("sums", SUMS, ["--syntax=lark", "--start=item"], "1+2", 1),
        ("lists.txt", LISTS, [], "[7]", 0),
        ("lists.lark", LISTS, ["--syntax", "gbnf"], "[7]", 0),
        ("lists.gbnf", 'number ::= [0-9]\nroot ::= number "."', ["--start", "number"], "7", 0),
    ],
)
def test_the_syntax_and_the_rule_of_the_whole_text(
    name: str, grammar: str, options: list[str], text: str, status: int, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(grammar, "utf-8")
    assert main(["check-grammar", str(tmp_path / name), *options, "--text", text, "--json"]) == status


def test_warnings_of_regular_expressions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.lark").write_text('start: A B C\nA: /\\d+|x/i\nB: /[0-9]/\nC: "\\\\d"\n', "utf-8")
    assert main(["check-grammar", str(tmp_path / "a.lark"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == [
        r"/\d+|x/i: \d allows digits of all scripts; write [0-9]"
    ]


def test_a_grammar_from_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (["check-grammar", "-"], ["explain", "--grammar", "-"]):
        monkeypatch.setattr("sys.stdin", io.StringIO(SUMS))
        assert main([*command, "--syntax", "lark", "--text", "1+1", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["legal"] is True


@pytest.mark.parametrize(
    ("name", "grammar", "options", "message", "shown"),
    [
        ("a.gbnf", 'root ::= "a"\n       | b', [], "line 2, column 10: the rule 'b' is not defined", "       | b"),
        ("a.lark", 'start: "a"\n  | b', [], "line 2, column 5", "  | b"),
        ("a.gbnf", SUMS, [], "line 1, column 6: this looks like a grammar of Lark", SUMS.splitlines()[0]),
    ],
)
def test_an_error_shows_where(
    name: str,
    grammar: str,
    options: list[str],
    message: str,
    shown: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / name).write_text(grammar, "utf-8")
    assert main(["check-grammar", str(tmp_path / name), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, line, caret = err.splitlines()
    assert first.startswith(f"logitkit: {message}")
    assert line.endswith(f"| {shown}")
    assert caret.strip(" |") == "^"
    assert main(["explain", "--grammar", str(tmp_path / name), *options, "--text", "a"]) == 2
    assert capsys.readouterr() == ("", err)


@pytest.mark.parametrize(
    ("grammar", "options", "message"),
    [
        ("", [], "rule"),
        (LISTS, ["--start", "nope"], "there is no rule 'nope'"),
        (LISTS, ["--start", ""], "there is no rule ''"),
        (LISTS, ["--start", "\udce9"], "not valid UTF-8 at position 0"),
        (LISTS, ["--syntax", "ebnf"], "invalid choice: 'ebnf'"),
        ('root ::= "\ud800"', [], "cannot be read"),
        ('root ::= "a"{9999999}', [], "the automaton has more than 50000 states"),
    ],
)
def test_wrong_use_is_one_message_and_status_2(
    grammar: str, options: list[str], message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(grammar.encode("utf-8", "surrogatepass"))
    assert main(["check-grammar", str(file), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, *rest = err.splitlines()
    assert first.startswith("logitkit")
    assert message in first
    assert all(line.startswith("    ") for line in rest)


def test_in_a_process_of_its_own(file: Path) -> None:
    file.write_text(SUMS + UNUSED, "utf-8")
    process = start("check-grammar", str(file), "--syntax=lark", "--text", "(", "--json")
    out, err = process.communicate()
    assert (process.returncode, err) == (1, "")
    report = json.loads(out)
    assert (report["legal"], len(report["warnings"])) == (False, 2)


def test_explain_prints_warnings_as_results(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(SUMS + UNUSED, "utf-8")
    command = ["explain", "--grammar", str(file), "--syntax=lark", "--text", "1"]
    assert main([*command, "--json"]) == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert len(warnings) == 2
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines()[-2:] == [f"warning   {warning}" for warning in warnings]
