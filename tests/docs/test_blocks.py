"""Every block of code of the documentation is run or checked by a test: those that are not Python are checked here.

`test_examples.py` runs blocks of Python and compares what they print with the block of text after them.
`tests/adapters/test_cli_page.py` runs those of the console. A block of another language, or one without a language, needs a check
here.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import textwrap
import tomllib
from typing import Any, NamedTuple

import pytest

import logitkit as lk
from logitkit.configuration.registry import GROUP
from tests.docs.pages import ROOT, examples

PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
PAGES += [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]

# A block may be indented, within a tab or a list.
FENCE = re.compile(r"^( *)```+([\w-]*).*\n((?:.*\n)*?)\1```+ *$", re.MULTILINE)

# The only page with blocks of text that no example prints: its diagrams.
DRAWN = {"docs/architecture.md": 3}


class Block(NamedTuple):
    """A block of code, and where it stands."""

    page: str
    language: str
    code: str


BLOCKS = [
    Block(page, language, textwrap.dedent(code))
    for page in PAGES
    for _, language, code in FENCE.findall((ROOT / page).read_text("utf-8"))
]
COMMANDS = [
    (block.page, line.partition("  #")[0].strip())
    for block in BLOCKS
    if block.language == "sh"
    for line in block.code.splitlines()
]


def of(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def test_no_block_has_a_language_without_a_check() -> None:
    assert {block.language for block in BLOCKS} == {"python", "text", "console", "sh", "toml", "json"}
    assert {block.page for block in of("console")} == {"docs/command-line.md"}


def test_no_block_is_missed() -> None:
    for page in PAGES:
        run = examples(page)
        assert len(run) == sum(block.page == page for block in of("python")), page
        printed = sum(example.printed is not None for example in run)
        assert printed == sum(block.page == page for block in of("text")) - DRAWN.get(page, 0), page


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[command for _, command in COMMANDS])
def test_a_command_exists(page: str, command: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for part in command.split(" && "):
        match shlex.split(part):
            case ["git", "clone", url]:
                assert url == project["urls"]["Repository"]
            case ["cd", folder]:
                assert folder == project["urls"]["Repository"].rpartition("/")[2]
            case ["pip", "install", here, *others]:
                extra = re.fullmatch(r"\.\[([\w-]+)\]", here)
                assert extra
                assert extra[1] in project["optional-dependencies"]
                assert others in ([], ["pydantic"])
            case ["export", setting]:
                sources = [path.read_text("utf-8") for path in (ROOT / "adapters").rglob("*.py")]
                assert any(setting.partition("=")[0] in source for source in sources)
            case ["bash", path]:
                assert (ROOT / path).is_file()
            case ["vllm", "serve", *_]:
                assert page in ("docs/vllm.md", "docs/vllm-at-scale.md")  # its environment parses the arguments
            case [script, *options]:
                text = (ROOT / script).read_text("utf-8")
                assert os.access(ROOT / script, os.X_OK)
                for option in options:
                    assert not option.startswith("--") or option in text or script == "scripts/fuzz", option
            case _:
                pytest.fail(f"{page}: {command}")


def test_the_seed_of_a_campaign_is_an_option() -> None:
    used = {option for _, line in COMMANDS if line.startswith("scripts/fuzz") for option in re.findall(r"--\w+", line)}
    code = "".join(path.read_text("utf-8") for path in (ROOT / "tests" / "campaigns").glob("*.py"))
    assert used == {"--minutes", "--seed"}
    assert all(f'"{option}"' in code for option in used)


def test_entry_points_name_the_processor_of_the_page() -> None:
    found = [(block.page, tomllib.loads(block.code)["project"]["entry-points"]) for block in of("toml")]
    assert [page for page, _ in found] == ["docs/own-processors.md", "docs/vllm.md"]
    for _, groups in found:
        assert groups == {GROUP: {"own_top_a": "our_processors:OwnTopA"}}


def test_a_configuration_with_the_processor_of_the_page_is_built(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = of("json")
    names: dict[str, Any] = {"__name__": "__main__"}
    for example in examples("docs/own-processors.md"):
        exec(compile(example.code, "docs/own-processors.md", "exec", dont_inherit=True), names)
        if "lk.register(" in example.code:
            break
    capsys.readouterr()
    vocabulary = lk.Vocabulary([*(bytes([byte]) for byte in range(128)), None], eos_ids=[128])
    made = lk.from_config(json.loads(block.code), vocabulary)
    assert isinstance(made, lk.Chain)
    assert [type(processor).__name__ for processor in made.processors] == ["Regex", "OwnTopA"]
