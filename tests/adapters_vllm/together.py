"""Requests that use what vLLM has of its own together with the plugin."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

from tests.adapters_vllm import engine, mixed

# The settings of engines that count tokens of thought.
SETTINGS: dict[str, Any] = {"reasoning_config": {"reasoning_start_str": "<", "reasoning_end_str": ">"}}

THOUGHTS = "<[a-z ]{0,60}>[0-9]{4}"
STOP, BUDGET = 32, 5  # the token that says >

PENALTIES = {"repetition_penalty": 1.2, "frequency_penalty": 0.3, "presence_penalty": 0.2}
BIAS, BAD = {50: -3.0, 35: 2.0}, "7"

Requests = list[tuple[str, dict[str, Any]]]


def _asks(config: Any, number: int, **more: Any) -> tuple[str, dict[str, Any]]:
    params = {"temperature": 0.0, "max_tokens": 40, **more, "extra_args": {"logitkit": config} if config else None}
    return engine.prompt(number), params


def _own_and_ours(number: int) -> Requests:
    """The same penalties and biases, of vLLM and of the plugin."""
    ours = {"logit_bias": {str(token): bias for token, bias in BIAS.items()}, **PENALTIES}
    digits = {"regex": "[0-9 ]{3,30}"}
    return [_asks(digits, number, logit_bias=BIAS, **PENALTIES), _asks({**digits, **ours}, number)]


def _least(number: int) -> Requests:
    return [_asks({"regex": "[0-9 ]{3,30}"}, number, min_tokens=12, bad_words=[BAD])]


def _masked(number: int) -> Requests:
    """A grammar of vLLM's, of whose texts the plugin bans some."""
    config = {"banned_strings": ["a", "b", "c"], "repetition_penalty": 1.5}
    return [_asks(config, number, structured_outputs={"regex": "[a-f]{4,9}"})]


def _thoughts(number: int) -> Requests:
    """Long thinking that vLLM cuts short; the plugin's constraint continues after it."""
    config = {"regex": THOUGHTS, "logit_bias": {str(STOP): -30.0}}
    return [_asks(config, number, max_tokens=80, thinking_token_budget=budget) for budget in (None, BUDGET)]


KINDS: tuple[Callable[[int], Requests], ...] = (_own_and_ours, _least, _masked, _thoughts)

PLACES = [(kind, number) for kind in KINDS for number in range(3)]

REQUESTS = [request for kind, number in PLACES for request in kind(number)]


def check(found: list[dict[str, Any]]) -> None:
    """Assert that each output is what vLLM and the plugin were asked for."""
    outputs = iter(found)
    for kind, number in PLACES:
        texts = [*itertools.islice(outputs, len(kind(number)))]
        CHECKS[kind](*texts)


def _check_own_and_ours(own: dict[str, Any], ours: dict[str, Any]) -> None:
    assert own["tokens"] == ours["tokens"]
    assert re.fullmatch("[0-9 ]{3,30}", own["text"])


def _check_least(one: dict[str, Any]) -> None:
    assert re.fullmatch("[0-9 ]{3,30}", one["text"])
    assert BAD not in one["text"]
    assert len(one["tokens"]) >= 12


def _check_masked(one: dict[str, Any]) -> None:
    assert re.fullmatch("[d-f]{4,9}", one["text"])


def _check_thoughts(free: dict[str, Any], bounded: dict[str, Any]) -> None:
    for one in (free, bounded):
        assert re.fullmatch(THOUGHTS, one["text"])
    assert free["tokens"].index(STOP) > 2 * BUDGET
    assert bounded["tokens"].index(STOP) == 1 + BUDGET


CHECKS: dict[Any, Callable[..., None]] = {
    _own_and_ours: _check_own_and_ours,
    _least: _check_least,
    _masked: _check_masked,
    _thoughts: _check_thoughts,
}


# Their lengths are as if the plugin were not there, so that vLLM schedules them alike and each has the same neighbours.
def plain(count: int, max_tokens: int, plugin: bool) -> Requests:
    """Return requests, with the plugin or without, of which every third asks for nothing; all show their logprobs."""
    return [
        (
            text,
            {
                **mixed.asked(number, max_tokens, plain=not plugin),
                "temperature": 0.0,
                "ignore_eos": True,
                "logprobs": 5,
            },
        )
        for number, (text, _) in enumerate(mixed.requests(count))
    ]


def check_plain(found: list[dict[str, Any]], without: list[dict[str, Any]]) -> None:
    """Assert that requests which ask for nothing are what they are without the plugin, and that others are not."""
    others = 0
    for number, (one, other) in enumerate(zip(found, without, strict=True)):
        assert len(one["logprobs"]) == len(one["tokens"]) == len(other["tokens"])
        if mixed.case(number).config is None:
            assert one == other, number
        else:
            others += one != other
    assert others > len(found) / 2
