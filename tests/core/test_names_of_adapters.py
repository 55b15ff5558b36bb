"""Names that readers look for in logitkit, but which are in the packages of engines."""

from __future__ import annotations

from importlib import import_module

import pytest

import logitkit as lk

ENGINES = ("transformers", "mlx_lm", "mlx_vlm", "llama_cpp")


@pytest.mark.parametrize("name", ["Session", "continuous", "generate_typed", "logits_processor", "trace"])
def test_the_error_names_the_packages_that_have_it(name: str) -> None:
    with pytest.raises(AttributeError, match=f"from logitkit_adapters.transformers import {name}, or from ") as caught:
        getattr(lk, name)
    for engine in ENGINES:
        assert f"logitkit_adapters.{engine}" in str(caught.value)
        assert hasattr(import_module(f"logitkit_adapters.{engine}"), name)


@pytest.mark.parametrize("name", ["nothing"])
def test_other_names_are_unknown(name: str) -> None:
    with pytest.raises(AttributeError, match=r"^module 'logitkit' has no attribute 'nothing'$"):
        getattr(lk, name)
    assert not hasattr(lk, "__wrapped__")
