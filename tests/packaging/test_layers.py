"""The picture of the packages, and the rule that every package is a map."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# But for the two public namespaces, and the demo, whose `__init__` has the functions that examples import.
NO_MAPS = {"logitkit", "logitkit_adapters", "demo"}
PACKAGES = sorted(
    path.parent
    for root in ("processors", "adapters")
    for path in (ROOT / root).rglob("__init__.py")
    if path.parent.name not in NO_MAPS
)


def test_the_picture_shows_the_layers_that_are_enforced() -> None:
    draw = runpy.run_path(str(ROOT / "scripts" / "draw-layers"))["draw"]
    assert (ROOT / "docs" / "layers.svg").read_text("utf-8") == draw(), "run scripts/draw-layers"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_names_each_of_its_files(package: Path) -> None:
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
    files = {path.stem for path in package.glob("*.py")} - {"__init__"}
    named = {word.strip(" ,:;()/").removesuffix(".py") for word in text.replace("/", " ").split()}
    families = {word.removesuffix("_*") for word in named if word.endswith("_*")} | {
        word.removeprefix("*_") for word in named if word.startswith("*_")
    }
    missing = {f for f in files - named if not any(f.startswith(x) or f.endswith(x) for x in families)}
    assert not missing, f"{package.name}/__init__.py does not say what these are for: {sorted(missing)}"
