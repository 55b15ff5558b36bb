"""The examples of README and docs: each page runs alone, in its order, and prints what it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, examples, pages

DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"

# The output of examples that the pages do not show, block by block.
PRINTED = {
    "docs/transformers.md": [
        rf"The meeting is on {DATE}\n",
        rf"The meeting is on {DATE}\nThe lamp was sold on {DATE}\n",
        "The meeting is on 2031-[0-9]{2}-[0-9]{2}\n",
        rf"{DATE}\n{DATE}\n",
        r"\[False\]\n",
    ],
    "docs/patterns.md": [""],
}

# These have tests beside those of their subject.
ELSEWHERE = {
    "docs/json-schema.md": "tests/json_schema/test_page.py",
    "docs/llama-cpp.md": "tests/adapters/test_llama_cpp_page.py",
    "docs/mlx-lm.md": "tests/adapters/test_mlx_lm_page.py",
    "docs/own-processors.md": "tests/adapters/test_own_processors_page.py",
    "docs/sessions.md": "tests/sessions/test_sessions_page.py",
    "docs/vllm.md": "tests/adapters_vllm/test_page.py",
    "docs/vllm-at-scale.md": "tests/adapters_vllm/test_page.py",
}
HERE = [page for page in pages() if page not in ELSEWHERE]

# Each tab of this page is a program.
PROGRAMS = "docs/index.md"


# Another library on the page on migration imports a part of torch that warns.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("page", [page for page in HERE if page != PROGRAMS])
def test_a_page_runs_alone(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    blocks = examples(page)
    patterns = PRINTED.get(page, [None] * len(blocks))
    for (code, shown), pattern in zip(blocks, patterns, strict=True):
        exec(compile(code, page, "exec", dont_inherit=True), names)
        printed = capsys.readouterr().out
        if shown is not None:
            assert printed == shown
        else:
            assert pattern is not None, f"{page} does not show what this prints: {printed}"
            assert re.fullmatch(pattern, printed), printed


@pytest.mark.parametrize("engine", ["transformers", "mlx_lm", "llama_cpp"])
def test_every_tab_of_the_home_page_is_a_program(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = (block for block in examples(PROGRAMS) if f"logitkit_adapters.{engine} import" in block.code)
    exec(compile(found.code, PROGRAMS, "exec", dont_inherit=True), {"__name__": "__main__"})
    assert capsys.readouterr().out == found.printed


def test_no_tab_is_left_out() -> None:
    # That of vLLM runs in the environment of vLLM.
    assert len(examples(PROGRAMS)) == 4


@pytest.mark.parametrize("page", ELSEWHERE)
def test_other_pages_have_tests_of_their_own(page: str) -> None:
    assert Path(page).name in (ROOT / ELSEWHERE[page]).read_text("utf-8")


def test_patterns_of_examples_mean_ascii_digits() -> None:
    r"""A model may well continue `\d` with Arabic-Indic digits, which surprises whoever copies the example."""
    shown = [(page, line) for page in pages() for block in examples(page) for line in block.code.splitlines()]
    for root in ("processors", "adapters"):
        for path in sorted((ROOT / root).rglob("*.py")):
            lines = path.read_text("utf-8").splitlines()
            shown += [(path.name, line) for line in lines if line.lstrip().startswith((">>>", "..."))]
    patterns = [(page, line) for page, line in shown if re.search(r"Regex\(|[\"']regex[\"']", line)]
    assert len(patterns) > 20
    assert [(page, line) for page, line in patterns if r"\d" in line and "(?a)" not in line] == []
