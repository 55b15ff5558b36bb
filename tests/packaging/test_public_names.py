"""`logitkit.__all__` is the public interface: sorted, complete, documented."""

from __future__ import annotations

import inspect
from importlib.metadata import version
from types import ModuleType

import pytest

import logitkit
from logitkit import errors


def public_names(module: ModuleType) -> list[str]:
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
    )


def test_all_is_the_sorted_list_of_public_names() -> None:
    assert logitkit.__all__ == public_names(logitkit)


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
