"""The examples for vLLM: each is a file of its own, which runs as a script and prints what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, Example, examples

PAGE, START, SCALE = "docs/vllm.md", "docs/quick-start.md", "docs/vllm-at-scale.md"
GRAMMARS = "docs/grammars.md"

# The output of each example of the page.
PRINTED = {
    "offline": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "server": "(yes|no)",
    "check": "the constraint works",
    "refusal": r"400 config\['json_schema'\]: 'type' at #/properties/price is 'money'; allowed is one of .*",
    "fields": r"\['price'\]",
    "json": r"\['age', 'name'\]",
    "tools": r"get_weather \['city', 'days'\]",
    "beams": r"\{('yes', 'no'|'no', 'yes')\}",
    "session": " (yes|no) after [1-9][0-9]* cached tokens",
    "typed": r"\w+day, \d\d \w+ \d{4} -\d+\.\d\n\w+day, \d\d \w+ \d{4} -\d+\.\d",
}


def run(example: Example, folder: Path, client: Any | None = None, own_process: bool = False) -> str:
    """Run an example as a script; it may begin with lines of vLLM's about its progress.

    Args:
        example: The example.
        folder: Where the script is written.
        client: The client of a server, in place of that of the example.
        own_process: Whether the engine has a process of its own, as for users. It imports vLLM again, which takes ten seconds.
    """
    code = example.code
    if client is not None:
        code = code.replace("http://localhost:8000/v1", str(client.base_url)).replace('"MODEL"', '"demo"')
    # To compile the model takes longer than all else.
    code = re.sub(r"LLM\(\s*str\(model_dir\(\)\),", r"\g<0> enforce_eager=True,", code)
    script = folder / "example.py"
    script.write_text(code, "utf-8")
    environment = {**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(own_process))}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(("number", "name"), list(enumerate(PRINTED)))
def test_an_example_of_the_page(number: int, name: str, client: Any, switched: Any, tmp_path: Path) -> None:
    found = examples(PAGE)
    assert len(found) == len(PRINTED)
    printed = run(found[number], tmp_path, switched if name == "fields" else client)
    assert re.search(rf"(^|\n|\r){PRINTED[name]}\n", printed), printed


@pytest.mark.parametrize("number", [0, 1])
def test_an_example_of_the_quick_start(number: int, tmp_path: Path) -> None:
    found = [example for example in examples(START) if "from vllm import" in example.code]
    assert len(found) == 2
    printed = run(found[number], tmp_path)
    assert re.search(rf"(^|\n|\r){re.escape(found[number].printed or '')}", printed), printed


def test_the_example_of_the_readme(tmp_path: Path) -> None:
    _, first, *others = examples("README.md")
    (found,) = (example for example in others if "from vllm import" in example.code)
    # Without transformers' own example, whose class and imports it uses.
    begin = first.code.partition("model, tokenizer = ")[0].replace(
        "logitkit_adapters.transformers", "logitkit_adapters.vllm"
    )
    printed = run(Example(begin + found.code, None), tmp_path, own_process=True)
    assert re.search(rf"(^|\n|\r){re.escape(first.printed or '')}", printed), printed


def test_the_example_of_the_page_on_grammars(tmp_path: Path) -> None:
    (found,) = (example for example in examples(GRAMMARS) if "from vllm import" in example.code)
    printed = run(found, tmp_path)
    assert found.printed
    assert re.search(rf"(^|\n|\r){re.escape(found.printed)}", printed), printed


def test_the_example_of_the_page_on_scale(client: Any, tmp_path: Path) -> None:
    (found,) = examples(SCALE)
    assert run(found, tmp_path, client).endswith("2 configurations are compiled\n")


def test_the_commands_of_the_pages_are_understood() -> None:
    try:
        from vllm.entrypoints.common.cli_args import make_arg_parser
    except ImportError:  # vLLM 0.32
        from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser())
    text = "".join((ROOT / page).read_text("utf-8") for page in (PAGE, SCALE))
    commands = re.findall(r"\nvllm serve (.*)\n", text)
    assert len(commands) == 4
    for command in commands:
        model, *options = shlex.split(command)
        assert model == "MODEL"
        found = parser.parse_args(options)
        assert found.logits_processors == ["logitkit_adapters.vllm:LogitsProcessor"]
