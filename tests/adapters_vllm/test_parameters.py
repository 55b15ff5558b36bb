"""Requests that are not allowed are refused at admission, with a message that names the problem."""

from __future__ import annotations

from typing import Any

import pytest

BAD: tuple[tuple[Any, str], ...] = (
    ({"regx": "a"}, r"unknown key 'regx'; did you mean 'regex'\?"),
    ({"regex": "a(b"}, r"at position 1\n    a\(b\n     \^"),
    ({"regex": r"(a)\1"}, r"\n        \^|\n       \^"),
    ({"regex": "(a|b)*a(a|b){40}"}, "more than 50000 states"),
    ({"top_k": "5"}, r"config\['top_k'\] is '5'; allowed is an integer"),
    ({"top_k": True}, r"config\['top_k'\] is True"),
    ({"temperature": float("nan")}, r"config\['temperature'\] is nan"),
    ({"regex": None}, r"config\['regex'\] is None"),
    ({"choice": []}, r"config\['choice'\] is \[\]"),
    ({"forced_tokens": [[1], [2]]}, r"config\['forced_tokens'\]\[0\] is \[1\]; allowed is an integer"),
    ({"chain": [{"top_k": 3}, {"temperature": 2}]}, "canonical order"),
    ({"regex": "[0-9]", "choice": ["a"]}, "no text is allowed by all"),
    ({1: 2}, "unknown key 1"),
    ({"regex": {1, 2}}, r"config\['regex'\] is"),
    ("{", "not valid JSON: .* at line 1, column 2"),
    ("", "not valid JSON"),
    ("[1]", "logitkit is a list; give a JSON object"),
    ("null", "logitkit is null; give a JSON object"),
    ("[" * 100_000, "JSON that cannot be read"),
    ('{"top_k": ' + "9" * 5000 + "}", "JSON that cannot be read"),
    (" " * (2**20 + 1), "allowed are up to"),
    ({"banned_strings": ["ab" * 50_000]}, "takes more than 7000000 steps|more than 50000 states"),
    ({"stop_strings": ["x" * 1_000_000]}, "more than 50000 states"),
    ({"choice": ["ab" * 20_000]}, "takes more than 7000000 steps"),
    ({"chain": [{"regex": f"(a{{1,99}}b{{1,{n}}})*c"} for n in range(1, 64)]}, "takes more than 7000000 steps"),
    (5, "logitkit is a number"),
    (1.5, "logitkit is a number"),
    (["regex", "a"], "logitkit is a list"),
)


@pytest.mark.parametrize(("given", "message"), BAD, ids=lambda value: repr(value)[:40])
def test_bad_parameters_are_value_errors(given: Any, message: str) -> None:
    from vllm import SamplingParams

    from logitkit_adapters.vllm import LogitsProcessor

    params = SamplingParams()
    params.extra_args = {"logitkit": given}
    with pytest.raises(ValueError, match=message):
        LogitsProcessor.validate_params(params)


@pytest.mark.parametrize(
    "extra_args",
    [None, {}, {"other": 5}, {"logitkit": None}, {"logitkit": {}}, {"logitkit": "{}"}, {"logitkit": '{"top_k": 4}'}],
    ids=str,
)
def test_good_parameters_pass(extra_args: dict[str, Any] | None) -> None:
    from vllm import SamplingParams

    from logitkit_adapters.vllm import LogitsProcessor

    LogitsProcessor.validate_params(SamplingParams(extra_args=extra_args))
