"""The command `logitkit`: what the demo prints holds, and whatever goes wrong is one message and a status."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit
import logitkit_adapters.cli
import logitkit_adapters.demo.cases
from logitkit.errors import PatternSyntaxError
from logitkit_adapters.cli import main
from logitkit_adapters.demo.cases import own_case, shipped_cases
from logitkit_adapters.demo.console import Console
from logitkit_adapters.demo.contact import Contact
from logitkit_adapters.demo.run import run_demo
from logitkit_adapters.demo.table import Cell, columns, quoted, visible, width
from logitkit_adapters.demo.transformers_engine import TransformersEngine

ROOTS = [str(Path(module.__file__).parents[1]) for module in (logitkit, logitkit_adapters.cli) if module.__file__]
# A test runner in the background ignores Ctrl-C, and would hand that down.
ANSWER_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
NO_NETWORK = """
import socket
def refuse(*_): raise AssertionError("the demo asked for the network")
socket.socket.connect = socket.getaddrinfo = refuse
"""
MAIN = "import sys; from logitkit_adapters.cli import main; sys.exit(main())"


def start(*arguments: str, before: str = "", **environment: str) -> subprocess.Popen[str]:
    """Start the command in a Python of its own, with code that runs before."""
    return subprocess.Popen(
        [sys.executable, "-W", "error::UserWarning", "-c", f"{before}\n{MAIN}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(ROOTS), "PYTHONIOENCODING": "utf-8", **environment},
    )


class Screen(io.StringIO):
    """A terminal, or none, in some encoding."""

    encoding = "utf-8"

    def __init__(self, terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__()
        self.terminal, self.encoding = terminal, encoding

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture(scope="module")
def demo() -> str:
    """What a plain `logitkit demo` prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = start("demo", before=NO_NETWORK)
    out, err = process.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert process.returncode == 0, err
    assert err.splitlines() == [
        "importing torch and transformers ...",
        "loading transformers and the demo model ...",
        *(f"{i} of 6: {case.name} ..." for i, case in enumerate(shipped_cases(), 1)),
        "loading mlx-lm and the demo model ...",
        *(f"{i} of 4: {case.name} ..." for i, case in enumerate(shipped_cases()[:4], 1)),
        "loading llama.cpp and the demo model ...",
        *(f"{i} of 4: {case.name} ..." for i, case in enumerate(shipped_cases()[:4], 1)),
    ]
    # On one core: what the test machine does besides does not count.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60
    return out


def parts(printed: str) -> list[str]:
    """What is printed of each engine, in their order."""
    return re.split(r"^(?=logitkit \S+ in )", printed, flags=re.MULTILINE)[1:]


def texts(printed: str, case: str) -> tuple[list[str], list[str]]:
    """The texts, with their marks, of a case: without logitkit and with it."""
    block = re.search(rf"^{re.escape(case)}  .*\n((?:.+\n)*)", printed, re.MULTILINE)
    assert block, printed
    found: tuple[list[str], list[str]] = ([], [])
    for line in block[1].splitlines():
        for column, piece in zip(found, (line[33:65].strip(), line[67:].strip()), strict=True):
            if piece.startswith(("✓ ", "✗ ")):
                column.append(piece)
            elif piece:
                column[-1] += f" {piece}"
    return found


def is_date(text: str) -> bool:
    return re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", text) is not None


def is_email(text: str) -> bool:
    return re.fullmatch(r"[a-z.]+@[a-z]+(\.[a-z]+)+", text) is not None


def is_sentiment(text: str) -> bool:
    return text in ("positive", "negative", "neutral")


def is_person(text: str) -> bool:
    person = json.loads(text)
    return (
        list(person) == ["name", "age", "email", "active"]
        and person["name"] == "Emma Brown"
        and 10 <= person["age"] <= 99
        and is_email(person["email"])
        and isinstance(person["active"], bool)
    )


def is_contact(text: str) -> bool:
    contact = json.loads(text.replace(" ", ""))  # some of which are ends of lines
    return (
        list(contact) == ["name", "age", "active", "address"]
        and re.fullmatch("[A-Z][a-z]+[A-Z][a-z]+", contact["name"]) is not None
        and 18 <= contact["age"] <= 99
        and isinstance(contact["active"], bool)
        and list(contact["address"]) == ["email", "country"]
        and is_email(contact["address"]["email"])
        and contact["address"]["country"] in ("France", "Spain", "Peru")
    )


def is_price(text: str) -> bool:
    return re.fullmatch(r"€\d{1,3}\.\d\d", text) is not None


@pytest.mark.parametrize(
    ("case", "count", "check"),
    [
        ("date", 1, is_date),
        ("e-mail", 1, is_email),
        ("choice", 1, is_sentiment),
        ("JSON", 1, is_person),
        ("4 prompts, 4 beams", 4, is_price),
        ("pydantic, 4 beams", 1, is_contact),
    ],
)
def test_demo_holds_each_text_to_its_format(demo: str, case: str, count: int, check: Any) -> None:
    transformers, *others = parts(demo)
    assert len(others) == 2
    without, held = texts(transformers, case)
    assert [text[0] for text in without] == ["✗"] * count, "the demo should show what a constraint changes"
    assert [text[0] for text in held] == ["✓"] * count
    assert all(check(text[3:-1]) for text in held)
    if "beams" in case:
        assert not any(case in other for other in others)
    else:
        assert [texts(other, case) for other in others] == [(without, held)] * 2


def test_demo_shows_costs_of_every_case(demo: str) -> None:
    number = r" +[\d.]+"
    for case in shipped_cases():
        rows = len(case.prompts) * case.beams
        row = rf"^{case.name} +{rows} +\d+{number} ms{number} ms{number} ms +\d+ us +[+-][\d.]+%$"
        assert len(re.findall(row, demo, re.MULTILINE)) == (3 if case.beams == 1 else 1), demo
    assert demo.count("Medians of CPU time.") == 1


def test_demo_fits_a_page_and_is_plain_text(demo: str) -> None:
    assert max(map(width, demo.splitlines())) <= 100
    assert "\x1b" not in demo
    assert all(line == line.rstrip() for line in demo.splitlines())


def test_the_pydantic_model_reads_what_is_written() -> None:
    case = shipped_cases()[-1]
    engine = TransformersEngine()
    engine.load()
    constraint = case.constraint(engine.vocabulary, logitkit.Limits())
    (text,) = engine.generate(case.prompts, constraint, max_new_tokens=case.max_new_tokens, beams=case.beams).texts
    assert Contact.model_validate_json(text).model_dump_json() == text
    assert case.check is not None
    assert case.check(text)
    assert not case.check(text.replace(":", ": ", 1)[:-1])
    assert not case.check(re.sub(r"\d+", "17", text, count=1))


def test_the_case_of_a_pydantic_model_is_left_out_without_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = [case.name for case in shipped_cases()]
    monkeypatch.setattr(logitkit_adapters.demo.cases, "find_spec", lambda name: None)
    assert [case.name for case in shipped_cases()] == everything[:-1]


def test_own_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    pattern = "(red|blue)( [0-9]){2}"
    assert main(["demo", "--regex", pattern, "--prompt", "Which colour\nis it? ", "--beams", "3"]) == 0
    out = capsys.readouterr().out
    (only,) = parts(out)  # mlx-lm and llama.cpp have no beams
    (without,), (held,) = texts(only, "your pattern")
    assert without[0] == "✗"
    assert held[0] == "✓"
    assert re.fullmatch(pattern, held[3:-1])
    assert r"'Which colour\nis it? '" in out
    assert re.search(r"^your pattern +3 ", out, re.MULTILINE)


def test_no_text_to_continue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--regex", "Dear [A-Z][a-z]{2,5},", "--prompt", ""]) == 0
    assert re.search(r"✓ 'Dear [A-Z][a-z]{2,5},'", capsys.readouterr().out)


def test_pattern_that_re_cannot_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--regex", r"\p{Lu}{3}", "--prompt", "x"]) == 0
    out = capsys.readouterr().out
    assert re.search("✓ '[A-Z]{3}'", out)
    assert "checked by logitkit alone" in out


def test_unfinished_text_is_invalid(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["demo", "--regex", "(ab){30}", "--prompt", "x", "--max-new-tokens", "3"]
    assert main(arguments) == 1
    out = capsys.readouterr().out
    assert re.search("✗ '(ab)+a?'", out)
    assert "not finished within 3 tokens; --max-new-tokens allows more" in out


def test_invalid_text_is_found_without_logitkit() -> None:
    case = own_case("a{3}", "x", beams=1, max_new_tokens=9)
    asked: list[tuple[str, int]] = []

    def check(text: str) -> bool:
        asked.append((text, torch.get_num_threads()))
        return False

    screen = Screen(terminal=False)
    torch.set_num_threads(2)
    try:
        assert not run_demo([TransformersEngine()], [replace(case, check=check)], Console(screen, screen, {}))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert asked == [("aaa", 1)]
    assert "✗ 'aaa'" in screen.getvalue()


@pytest.mark.parametrize("pattern", ["(", "ab)c", r"(a)\2", "[z-a]", "x{3,1}", "a\n(b"])
def test_bad_pattern_shows_where(pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PatternSyntaxError) as found:
        logitkit.Regex(pattern, logitkit.Vocabulary([b"a", None], eos_ids=[1]))
    assert main(["demo", "--regex", pattern, "--prompt", "x"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    progress, message = err.split("\n", 1)
    assert progress.endswith(" ...")
    assert message == f"logitkit: {found.value}\n"
    _, shown, caret = message.splitlines()
    assert re.fullmatch(r" +\^", caret)
    assert len(caret) <= len(shown) + 1


def own(*arguments: str, regex: str = "a", prompt: str = "x") -> list[str]:
    return ["demo", f"--regex={regex}", f"--prompt={prompt}", *arguments]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a command, such as `logitkit demo`"),
        (["dmeo"], "invalid choice: 'dmeo'"),
        (["demo", "--verbose"], "unrecognized arguments: --verbose"),
        (["demo", "--regex", "a"], "give --regex and --prompt together"),
        (["demo", "--prompt", "a"], "give --regex and --prompt together"),
        (["demo", "--beams", "2"], "--beams and --max-new-tokens go with --regex and --prompt"),
        (own("--beams", "0"), "'0' is not a whole number from 1 to 64"),
        (own("--beams", "many"), "'many' is not a whole number from 1 to 64"),
        (own("--max-new-tokens", "1e3"), "'1e3' is not a whole number from 1 to 1024"),
        (own(prompt="very " * 3000), "positions; give a shorter prompt, or ask for fewer new tokens"),
        (own(prompt="caf\udce9"), "not valid UTF-8 at position 3"),
        (own(regex="[01]*1[01]{40}"), "limits"),
        (own(regex="a(?!a)a"), "no text"),
    ],
)
def test_wrong_arguments_are_one_line(
    arguments: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.endswith(" ...")]
    assert len(lines) == 1
    assert lines[0].startswith("logitkit")
    assert message in lines[0]


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"logitkit {logitkit.__version__}\n"
    assert main(["--help"]) == 0
    assert "demo" in capsys.readouterr().out
    assert main(["demo", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(option in out for option in ("--regex", "--prompt", "--max-new-tokens", "--beams"))


def test_arguments_are_read_before_anything_is_loaded() -> None:
    process = start("demo", "--help", before="import sys; sys.modules['torch'] = sys.modules['transformers'] = None")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "--regex" in out


MISSING = {
    "transformers": "logitkit_adapters.transformers needs transformers: pip install 'logitkit[transformers]'",
    "mlx_lm": "logitkit_adapters.mlx_lm needs mlx-lm: pip install 'logitkit[mlx]'",
    "llama_cpp": "logitkit_adapters.llama_cpp needs llama-cpp-python: pip install 'logitkit[llama-cpp]'",
}


@pytest.mark.parametrize("arguments", [[], own("--beams", "2")])
def test_missing_engines_are_named_with_what_installs_them(arguments: list[str]) -> None:
    before = f"import sys; sys.modules.update(dict.fromkeys({list(MISSING)}))"
    process = start(*(arguments or ["demo"]), before=before)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    able = ["transformers"] if arguments else list(MISSING)
    assert err.splitlines()[1:] == [f"logitkit: {'; or '.join(MISSING[name] for name in able)}"]


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("transformers", ["llama-cpp-python"]),  # which mlx-lm needs itself
        ("mlx_lm", ["transformers", "llama-cpp-python"]),
        ("llama_cpp", ["transformers", "mlx-lm"]),
    ],
)
def test_an_engine_may_be_missing(name: str, left: list[str]) -> None:
    process = start(*own(regex="a{3}"), before=f"import sys; sys.modules[{name!r}] = None")
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert re.findall(r"^logitkit \S+ in (\S+)", out, re.MULTILINE) == left
    assert out.count("✓ 'aaa'") == len(left)


@pytest.mark.parametrize("arguments", [["--version"], own()])
def test_closed_pipe_ends_quietly(arguments: list[str]) -> None:
    with start(*arguments) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 141
    assert all(line.endswith(" ...") for line in err.splitlines())


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [
        ("importing torch and transformers", 0.0),
        ("importing torch and transformers", 0.3),
        ("1 of 6: date", 0.0),
    ],
)
def test_ctrl_c_ends_quietly(moment: str, seconds: float) -> None:
    process = start("demo", before=ANSWER_CTRL_C)
    assert process.stderr
    while process.stderr.readline() != f"{moment} ...\n":
        assert process.poll() is None
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err == ""


@pytest.mark.parametrize(
    ("terminal", "environment", "coloured"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": ""}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    terminal: bool, environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out = Screen(terminal)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", Screen(terminal=False))
    assert main(own(regex="a{3}", prompt="\x1b[5m")) == 0
    printed = out.getvalue()
    assert ("\x1b[32m✓ 'aaa'\x1b[0m" in printed) == coloured
    assert ("\x1b" in printed) == coloured
    # What the user or the model writes reaches no terminal as an order.
    assert "\x1b[5m" not in printed
    assert r"'\x1b[5m'" in printed


def test_progress_on_a_terminal_leaves_nothing_behind() -> None:
    out, err = Screen(terminal=False), Screen(terminal=True)
    console = Console(out, err, {})
    console.progress("loading")
    console.step("measuring")
    console.results(["done"])
    erase = "\r\x1b[K"
    assert err.getvalue() == f"{erase}loading ...{erase}measuring ...{erase}"
    assert out.getvalue() == "done\n"


def test_encoding_without_ticks() -> None:
    out = Screen(terminal=False, encoding="ascii")
    console = Console(out, out, {})
    console.results([f"{console.good} {console.bad} café"])
    assert out.getvalue() == "ok no caf\\xe9\n"


@given(cells=st.lists(st.tuples(st.text(max_size=60), st.integers(2, 20), st.booleans()), min_size=1, max_size=4))
def test_columns_keep_every_character_in_its_width(cells: list[tuple[str, int, bool]]) -> None:
    shown = [Cell(visible(text), "", right) for text, _, right in cells]
    sizes = [size for _, size, _ in cells]
    lines = columns(shown, sizes, lambda text, style: text)
    assert max(map(width, lines)) <= sum(sizes) + 2 * (len(sizes) - 1)
    everything = sorted("".join(cell.text for cell in shown).replace(" ", ""))
    assert sorted("".join(lines).replace(" ", "")) == everything


@given(st.text())
def test_quoted_text_is_one_printable_line(text: str) -> None:
    assert quoted(text).isprintable()
