"""The page on the command line shows what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from logitkit_adapters.cli import main
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "command-line.md").read_text("utf-8")
# A block may show a file first.
SHOWN = re.findall(
    r"```console\n(?:\$ cat (\S+)\n((?:(?!\$ |```).*\n)*))?\$ logitkit ([^\n]*)\n((?:(?!```).*\n)*)```", PAGE
)
# Numbers that differ between runs: the time, and how large `\d` is, as each version of Python knows other digits.
VARIES = re.compile(r"in [0-9.]+ ms|classes +\d+|memory +[\d,]+")


@pytest.mark.parametrize(
    ("file", "content", "command", "output"), SHOWN, ids=[command.split()[0] for *_, command, _ in SHOWN]
)
def test_the_page_shows_what_is_printed(
    file: str,
    content: str,
    command: str,
    output: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if file:
        monkeypatch.chdir(tmp_path)
        Path(file).write_text(content, "utf-8")
    assert main(shlex.split(command)) == 1
    assert VARIES.sub("", capsys.readouterr().out) == VARIES.sub("", output)


def test_the_page_names_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    commands = re.findall(r"^    ([a-z-]+)(?:  |$)", capsys.readouterr().out, re.MULTILINE)
    assert len(commands) == 8
    assert all(f"`logitkit {command}" in PAGE for command in commands)
