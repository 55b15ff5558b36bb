"""The page on the command line shows what the commands print."""

from __future__ import annotations

import re
import shlex

import pytest

from logitkit_adapters.cli import main
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "command-line.md").read_text("utf-8")
SHOWN = re.findall(r"```console\n\$ logitkit ([^\n]*)\n(.*?)```", PAGE, re.DOTALL)
TIME = re.compile(r"in [0-9.]+ ms")


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command.split()[0] for command, _ in SHOWN])
def test_the_page_shows_what_is_printed(command: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(command)) == 1
    assert TIME.sub("TIME", capsys.readouterr().out) == TIME.sub("TIME", output)


def test_the_page_names_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    commands = re.findall(r"^    ([a-z-]+)(?:  |$)", capsys.readouterr().out, re.MULTILINE)
    assert len(commands) == 6
    assert all(f"`logitkit {command}" in PAGE for command in commands)
