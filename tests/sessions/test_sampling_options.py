"""Options of engines' own `generate` are refused with what to write instead."""

from __future__ import annotations

import re
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import ArgumentTypeError, ConfigurationError
from logitkit_adapters.sessions.sampling_options import ARGUMENTS, PROCESSORS, refuse_sampling_options


def test_allowed_options_pass() -> None:
    refuse_sampling_options({"seed": 1, "do_sample": True}, ["seed", "do_sample"])


@pytest.mark.parametrize("name", PROCESSORS)
def test_the_processor_is_named(name: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"{name}=0.5: put logitkit.")) as caught:
        refuse_sampling_options({"seed": 1, name: 0.5}, ["seed"])
    assert isinstance(caught.value, ConfigurationError)
    named = re.findall(r"logitkit\.(\w+)\(\*?0\.5", str(caught.value))
    assert all(hasattr(lk, one) for one in named)
    assert len(named) == 1


@pytest.mark.parametrize(
    ("options", "allowed", "said"),
    [
        (
            {"temperature": 0.7},
            ["seed"],
            "temperature=0.7: put logitkit.Temperature(0.7) into the processor and give seed=",
        ),
        ({"repetition_penalty": 1.1}, ["seed"], "put logitkit.RepetitionPenalty(1.1) into the processor"),
        ({"do_sample": True}, ["seed"], "do_sample=True: give seed= instead"),
        ({"max_tokens": 5}, ["max_new_tokens"], "max_tokens=5: give max_new_tokens= instead"),
        ({"colour": 1}, ["seed", "num_beams"], "colour is not an option here; allowed are seed, num_beams"),
    ],
)
def test_messages(options: dict[str, Any], allowed: list[str], said: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        refuse_sampling_options(options, allowed)
    assert str(caught.value).endswith(said)


def test_no_argument_is_suggested_that_is_not_allowed() -> None:
    for name in ARGUMENTS:
        with pytest.raises(ArgumentTypeError, match="allowed are colour"):
            refuse_sampling_options({name: 1}, ["colour"])
