"""`logitkit.__all__` is the public interface: sorted, complete, documented, and imported name by name when it is used."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import logitkit
from logitkit import errors
from logitkit.public_names import MODULES


def test_type_checkers_and_programs_find_the_same_names() -> None:
    tree = ast.parse(Path(logitkit.__file__).read_text("utf-8"))
    checked = {
        alias.name: f"{node.module}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "logitkit.public_names"
        for alias in node.names
        if alias.asname == alias.name
    }
    # A submodule that is written as an attribute, `lk.training`, is found without being listed.
    submodules = {name for name, module in checked.items() if module == "logitkit"}
    assert submodules == {"particles", "training", "watermarks"}
    assert all(inspect.ismodule(getattr(logitkit, name)) for name in submodules)
    named = {name: module for name, module in checked.items() if name not in submodules}
    assert named == {name: f"logitkit.{module}" for name, module in MODULES.items()}
    assert logitkit.__all__ == sorted(MODULES)
    assert {*logitkit.__all__} <= {*dir(logitkit)}


def test_a_name_is_imported_when_it_is_used() -> None:
    code = """
import sys, logitkit as lk
def loaded(): return {name for name in sys.modules if name.startswith("logitkit.")}
assert loaded() == {"logitkit.public_names"}, loaded()
lk.TopK
assert not [name for name in loaded() if name.startswith(("logitkit.json_schema", "logitkit.tools", "logitkit.configuration"))]
assert lk.languages.regex and lk.errors.LogitkitError
assert "thinking_budget" in str(lk.config_schema())
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", logitkit.__all__)
def test_public_name_is_the_core_s_own_and_documented(name: str) -> None:
    value = getattr(logitkit, name)
    assert value.__module__.startswith("logitkit.")
    assert inspect.getdoc(value)


def test_every_error_is_a_logitkit_error() -> None:
    found = [value for value in vars(errors).values() if inspect.isclass(value)]
    assert len(found) > 5
    assert all(issubclass(error, errors.LogitkitError) for error in found)


def test_version_is_that_of_the_distribution() -> None:
    assert logitkit.__version__ == version("logitkit")
