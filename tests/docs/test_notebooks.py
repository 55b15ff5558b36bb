"""The notebooks: their cells run and print what is stored, and the site shows them."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.examples import CI

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]

# The tests of an engine with an environment of its own run these cells.
RUN_ELSEWHERE = {"one-processor-four-engines": ["vllm"]}

# These run in a process of their own, because TRL and accelerate change transformers and the filters of warnings. Each needs a
# module that no other test needs.
RUN_APART = {"training-with-trl": "trl"}


@pytest.fixture(scope="module")
def module() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "docs_notebooks.py"))


def run_apart(path: Path, folder: Path) -> dict[str, Any]:
    """Run a copy of a notebook as `scripts/notebooks --write` does, behind a proxy that does not answer, and return it."""
    if find_spec(RUN_APART[path.stem]) is None and not CI:
        # `scripts/test` installs it; a run by hand may lack it.
        pytest.skip(f"{RUN_APART[path.stem]} is not installed: pip install -c constraints.txt --group training")
    copy = folder / path.name
    shutil.copy(path, copy)
    # Nothing is downloaded: a notebook that tried would fail.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "scripts/docs_notebooks.py", str(copy), "--write"],
        cwd=ROOT,
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    made: dict[str, Any] = json.loads(copy.read_text("utf-8"))
    return made


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_the_stored_outputs_are_those_of_a_run(path: Path, module: dict[str, Any], tmp_path: Path) -> None:
    notebook = module["read"](path)
    run_again = run_apart(path, tmp_path) if path.stem in RUN_APART else module["run"](notebook)
    for stored, made in zip(notebook["cells"], run_again["cells"], strict=True):
        assert made.get("outputs") == stored.get("outputs"), (
            f"in the cell {stored['id']}; see scripts/notebooks --write"
        )
        assert made == stored


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_a_notebook_is_a_file_that_jupyter_reads(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert notebook["metadata"]["language_info"]["name"] == "python"
    identifiers = [cell["id"] for cell in notebook["cells"]]
    assert len(set(identifiers)) == len(identifiers)
    for cell in notebook["cells"]:
        assert re.fullmatch("[A-Za-z0-9_-]{1,64}", cell["id"])
        of_code = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | of_code
        assert cell["cell_type"] in ("code", "markdown")
        assert cell["source"]
        assert all(line.endswith("\n") for line in cell["source"][:-1])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_a_cell_that_is_not_run_here_is_run_elsewhere(path: Path, module: dict[str, Any]) -> None:
    cells = [cell for cell in module["read"](path)["cells"] if cell["cell_type"] == "code"]
    assert [cell["id"] for cell in cells if not module["is_run"](cell)] == RUN_ELSEWHERE.get(path.stem, [])


def notebook_of(*sources: str) -> dict[str, Any]:
    cells = [
        {"cell_type": "code", "id": f"c{number}", "metadata": {}, "source": [source], "outputs": []}
        for number, source in enumerate(sources)
    ]
    return {"cells": cells}


def test_outputs_are_what_is_printed_and_the_last_value(module: dict[str, Any]) -> None:
    made = module["run"](notebook_of("x = 2\nprint(x)\nprint(3)", "x + 1", "x += 1", "None"))
    first, second, *others = made["cells"]
    assert first["outputs"] == [{"name": "stdout", "output_type": "stream", "text": ["2\n", "3\n"]}]
    assert second["outputs"][0]["data"] == {"text/plain": ["3"]}
    assert second["execution_count"] == 2
    assert [cell["outputs"] for cell in others] == [[], []]


def test_ids_do_not_depend_on_earlier_explanations(module: dict[str, Any]) -> None:
    explained = "import logitkit as lk\nv = lk.Vocabulary([b'a', None], eos_ids=[1])\nlk.explain(lk.Regex('a+', v), v, [], 'aa')"
    first, second = (module["run"](notebook_of(explained))["cells"][0]["outputs"] for _ in range(2))
    assert first == second
    assert 'id="c0-1"' in "".join(first[0]["data"]["text/html"])


def test_an_error_names_its_cell(module: dict[str, Any]) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        module["run"](notebook_of("1", "1 / 0"))
    assert caught.value.__notes__ == ["in the cell c1"]


def test_other_outputs_are_found_and_stored(module: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(notebook_of("print(1)")), "utf-8")
    assert module["main"]([str(path)]) == 1
    assert module["main"]([str(path), "--write"]) == 0
    assert module["read"](path)["cells"][0]["outputs"][0]["text"] == ["1\n"]
    assert module["main"]([str(path)]) == 0


def test_engines_agree() -> None:
    notebook = json.loads((ROOT / "docs" / "notebooks" / "one-processor-four-engines.ipynb").read_text("utf-8"))
    cells = {cell["id"]: cell for cell in notebook["cells"]}
    names = ("transformers", "mlx", "llama", "vllm")
    printed = {name: "".join(cells[name]["outputs"][0]["text"]).splitlines() for name in names}
    greedy = {
        name: [line.split()[1:] for line in lines if line.startswith("greedy")] for name, lines in printed.items()
    }
    assert greedy == dict.fromkeys(names, greedy["transformers"])
    beams = {name: [line for line in lines if line.startswith("beam")] for name, lines in printed.items()}
    assert len(beams["vllm"]) == 4
    assert beams["vllm"] == beams["transformers"]
