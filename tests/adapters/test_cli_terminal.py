"""The command `logitkit` on terminals, in pipes and under Ctrl-C."""

from __future__ import annotations

import signal
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logitkit_adapters.cli import main
from logitkit_adapters.demo.console import Console
from logitkit_adapters.demo.run import Cell, columns, quoted, visible, width
from tests.adapters.cli_process import ANSWER_CTRL_C, Screen, own, start


@pytest.mark.parametrize("arguments", [["--version"], own()])
def test_closed_pipe_ends_quietly(arguments: list[str]) -> None:
    with start(*arguments) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 141
    assert all(line.endswith(" ...") for line in err.splitlines())


def test_an_output_that_was_never_open_is_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["check-regex", "a"]) == 2
    assert capsys.readouterr().err == "logitkit: standard output is closed, so nothing can be printed; open it\n"


@pytest.mark.parametrize(("text", "status"), [("a", 0), ("b", 1)])
def test_messages_may_have_nowhere_to_go(
    text: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["explain", "--regex", "a", "--text", text]) == status
    assert capsys.readouterr().out.startswith(("The output is legal", "Regex refuses")[status])
    assert main(["explain", "--regex", "(", "--text", text]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [
        ("importing torch and transformers", 0.0),
        ("importing torch and transformers", 0.3),
        ("1 of 8: date", 0.0),
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
    # Text of the user or the model never reaches a terminal as a control sequence.
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
