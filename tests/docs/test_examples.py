"""The examples of README and docs: each page runs alone, in its order, and prints what it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from logitkit_adapters.transformers import logits_processor as transformers_hook
from tests.docs.pages import ROOT, examples, pages

# These have tests beside those of their subject.
ELSEWHERE = {
    "docs/mlx-vlm.md": "tests/adapters/test_mlx_vlm_page.py",
    "docs/servers.md": "tests/serving/test_page.py",
    "docs/vllm.md": "tests/adapters_vllm/test_page.py",
    "docs/vllm-at-scale.md": "tests/adapters_vllm/test_page.py",
}
HERE = [page for page in pages() if page not in ELSEWHERE]

# Each tab of this page is a program. Home continues its first one.
PROGRAMS, HOME = "docs/quick-start.md", "docs/index.md"


# Another library on the page on migration imports a part of torch that warns.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("page", [page for page in HERE if page not in (PROGRAMS, HOME, "README.md")])
def test_a_page_runs_alone(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for code, shown in examples(page):
        if "from vllm import" in code:
            continue  # it runs in the environment of vLLM
        exec(compile(code, page, "exec", dont_inherit=True), names)
        assert capsys.readouterr().out == (shown or ""), f"{page} does not show what this prints:\n{code}"


@pytest.mark.parametrize("engine", ["transformers", "mlx_lm", "llama_cpp"])
def test_every_tab_of_the_quick_start_is_a_program(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = [block for block in examples(PROGRAMS) if f"logitkit_adapters.{engine} import" in block.code]
    assert len(found) == 2
    for block in found:
        exec(compile(block.code, PROGRAMS, "exec", dont_inherit=True), {"__name__": "__main__"})
        assert capsys.readouterr().out == block.printed


def test_no_tab_is_left_out() -> None:
    # Those of vLLM run in the environment of vLLM.
    assert len(examples(PROGRAMS)) == 8


def test_the_home_page_continues_the_quick_start(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(examples(PROGRAMS)[0].code, PROGRAMS, "exec", dont_inherit=True), names)
    capsys.readouterr()
    (block,) = examples(HOME)
    exec(compile(block.code, HOME, "exec", dont_inherit=True), names)
    assert capsys.readouterr().out == block.printed


def test_the_examples_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    two_lines, first, *others = examples("README.md")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in (first, *others):
        if "from vllm import" in block.code:
            continue  # it runs in the environment of vLLM
        exec(compile(block.code, "README.md", "exec", dont_inherit=True), names)
        assert capsys.readouterr().out == first.printed
    names["logits_processor"] = transformers_hook
    names["inputs"] = names["tokenizer"]("The invoice: ", return_tensors="pt")
    exec(compile(two_lines.code, "README.md", "exec", dont_inherit=True), names)
    written = names["tokenizer"].decode(names["ids"][0], skip_special_tokens=True)
    assert written == "The invoice: " + two_lines.code.strip().rpartition("# ")[2]


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
