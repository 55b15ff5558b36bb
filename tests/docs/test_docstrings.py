"""The examples of public names: each runs as it stands, without the names of the module that it is written in."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "logitkit",
    "logitkit.errors",
    "logitkit_adapters.transformers",
    "logitkit_adapters.mlx_lm",
    "logitkit_adapters.llama_cpp",
    "logitkit_adapters.onnxruntime_genai",
]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_public_names_run_alone(module: str) -> None:
    public = importlib.import_module(module)
    finder = doctest.DocTestFinder()
    found = [test for name in public.__all__ for test in finder.find(getattr(public, name), name, globs={})]
    shown = [test for test in found if test.examples]
    assert len(shown) > 1
    said: list[str] = []
    for test in shown:
        test.globs = {"__name__": "__main__"}
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert "".join(said) == ""
