"""`logitkit serve` as a command: its arguments, and what it refuses before a server starts."""

from __future__ import annotations

import importlib.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logitkit_adapters.cli.command import main
from logitkit_adapters.cli.serve import own_arguments


@given(st.lists(st.sampled_from(["--host", "--host=0.0.0.0", "::", "--port", "80", "--model", "x"]), max_size=6))
def test_the_address_is_that_of_this_machine_unless_another_is_named(arguments: list[str]) -> None:
    found = own_arguments(arguments)
    named = {"--host", "--host=0.0.0.0"} & set(arguments)
    assert found == (arguments if named else [*arguments, "--host", "127.0.0.1"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vllm"], "invalid choice: 'vllm'"),
        ([], "engine"),
        (["--tool-format", "nope", "mlx-lm"], "--tool-format is 'nope'; allowed are auto"),
        (["transformers", "--continuous-batching", "x"], "does not support --continuous-batching"),
    ],
)
def test_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("name", "value"), [("MAX_WORK", "0"), ("MAX_WROK", "5")])
def test_a_wrong_limit_in_the_environment(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"LOGITKIT_SERVER_{name}", value)
    assert main(["serve", "mlx-lm", "--model", "no/such"]) == 2
    assert f"the environment variable LOGITKIT_SERVER_{name} is" in capsys.readouterr().err


def test_a_package_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastapi" else find(name))
    assert main(["serve", "llama-cpp"]) == 2
    assert "needs fastapi: pip install 'logitkit[llama-cpp,serve]'" in capsys.readouterr().err
