"""The files of a release agree: the version, the citation and the list of licences."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import yaml

import logitkit

ROOT = Path(__file__).parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_version_is_the_same_everywhere() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    citation = yaml.safe_load(read("CITATION.cff"))
    releases = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - ", read("CHANGELOG.md"), re.MULTILINE)
    assert {logitkit.__version__, citation["version"], releases[0]} == {project["version"]}


def test_citation_describes_the_project() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    citation = yaml.safe_load(read("CITATION.cff"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)  # what the format requires
    assert citation["cff-version"] == "1.2.0"
    assert citation["authors"] == project["authors"]
    assert citation["license"] == project["license"]
    assert citation["repository-code"] == project["urls"]["Repository"]


def test_the_readme_is_short_and_complete() -> None:
    text = read("README.md")
    assert len(text.splitlines()) <= 140
    assert re.findall(r"!\[[^\]]+\]\(docs/\S+\.svg\)", text)
    assert {"scripts/demo", "scripts/test"} <= set(re.findall(r"^scripts/\w+", text, re.MULTILINE))
    engines = re.findall(r"^\*\*([\w.-]+)\*\* \(\[guide\]\((docs/[\w-]+\.md)\)\)\n\n```python$", text, re.MULTILINE)
    assert [name for name, _ in engines] == ["transformers", "mlx-lm", "llama.cpp", "vLLM"]
    assert len(re.findall(r"^\|[-:| ]+\|$", text, re.MULTILINE)) == 1  # one table of numbers
    linked = [target.partition("#")[0] for target in re.findall(r"\]\((?!https:)([^)]+)\)", text)]
    assert len(linked) > 15
    assert [target for target in linked if not (ROOT / target).exists()] == []


def test_licences_of_the_core_are_up_to_date() -> None:
    script: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "licences"))
    dependencies = tomllib.loads(read("pyproject.toml"))["project"]["dependencies"]
    core = script["closure"](dependencies)
    assert {"torch", "numpy", "safetensors"} < set(core)
    assert f"## Core\n\n{script['table'](core)}\n" in read("docs/licences.md")
    assert "not stated" not in script["table"](core)


def test_supported_versions_are_those_of_the_project() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    extras = [each for name, extra in project["optional-dependencies"].items() if name != "all" for each in extra]
    oldest = dict(
        re.findall(r"^([\w-]+)(?:\[\w+\])?>=([\d.]+)", "\n".join(project["dependencies"] + extras), re.MULTILINE)
    )
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", read("constraints.txt"), re.MULTILINE))
    rows = re.findall(r"^\| ([a-z][^|]*?) \| ([^|]*?) \| ([^|]*?) \|$", read("docs/versioning.md"), re.MULTILINE)
    listed = {names: pair for names, *pair in rows if names.split(", ")[0] in oldest}
    assert len(listed) == 8
    for names, (first, tested) in listed.items():
        versions = tested.split(", ") if tested != "the same" else first.split(", ")
        for name, floor, pin in zip(names.split(", "), first.split(", "), versions, strict=True):
            assert oldest[name] == floor
            assert pinned[name.replace("llama-cpp-python", "llama_cpp_python")] == pin
    assert f"| vLLM | {oldest['vllm']} |" in read("docs/versioning.md")
