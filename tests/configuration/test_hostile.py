"""Whatever a configuration asks for, it is soon refused or made: it may come from anyone."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

import logitkit as lk
from tests.counted_calls import calls
from tests.examples import of_all

# As long as a server takes.
LONGEST = 2**20 - 200

DRAWN = random.Random(0)


def words(count: int, length: int) -> list[str]:
    return ["".join(DRAWN.choices("abcdefghijklmnopqrstuvwxyz", k=length)) for _ in range(count)]


def text(length: int) -> str:
    return words(1, length)[0]


# Makers, so that what is large is there only while it is looked at; and why each is refused, or nothing.
HOSTILE: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "a ban": (lambda: {"banned_strings": [text(LONGEST)]}, "states"),
    "a ban that its limit of states allows": (lambda: {"banned_strings": [text(100_000)]}, "steps"),
    "a ban in any case": (lambda: {"banned_strings": {"strings": [text(100_000)], "ignore_case": True}}, "steps"),
    "a stop that is a pattern": (lambda: {"stop_strings": [{"pattern": "a[ab]{30}c"}]}, "steps"),
    "a stop": (lambda: {"stop_strings": [text(LONGEST)]}, "states"),
    "a stop that its limit of states allows": (lambda: {"stop_strings": [text(45_000)]}, "steps"),
    "a choice": (lambda: {"choice": [text(LONGEST)]}, "states"),
    "a choice that its limit of states allows": (lambda: {"choice": [text(45_000)]}, "steps"),
    "a pattern": (lambda: {"regex": text(LONGEST)}, "states"),
    "many words": (lambda: {"banned_strings": words(100_000, 6)}, "states"),
    "a prefix": (lambda: {"forced_prefix": text(LONGEST)}, "states"),
    "a marker": (lambda: {"then": {"first": None, "second": {"regex": "a"}, "marker": text(LONGEST)}}, "steps"),
    "a long automaton": (
        lambda: {"dfa": {"transitions": [[i, 3, i + 1] for i in range(50_000)], "start": 0, "accepting": [50_000]}},
        "",
    ),
    "one pattern many times": (lambda: {"chain": [{"regex": r'("id": \d+, "n": "[a-z]{1,200}"){1,99}'}] * 64}, ""),
    "many patterns": (
        lambda: {"chain": [{"regex": f'("[a-z]{{1,200}}", {i}|.){{1,100}}'} for i in range(64)]},
        "states",
    ),
    "many bans": (lambda: {"chain": [{"banned_strings": words(10, 1500)} for _ in range(64)]}, "steps"),
    "many schemas": (
        lambda: {
            "chain": [
                {"json_schema": {"properties": {word: {"type": "string", "maxLength": 50} for word in words(60, 5)}}}
                for _ in range(64)
            ]
        },
        "steps",
    ),
}


@pytest.mark.parametrize("name", of_all(HOSTILE, 2))
def test_it_is_soon_refused_or_made(name: str, tekken: lk.Vocabulary) -> None:
    make, why = HOSTILE[name]
    config = make()
    with pytest.raises(ValueError, match=rf"more than [0-9]+ {why}") if why else nullcontext():
        lk.from_config(config, tekken)


def test_its_processors_share_one_limit_whatever_was_compiled_before() -> None:
    vocabulary = lk.Vocabulary([*[bytes([b]) for b in range(256)], None], eos_ids=[256])
    limits = lk.Limits(work=40_000)
    links: list[dict[str, Any]] = [
        {"regex": r"[a-z]{1,4000}"},
        {"json_schema": {"properties": {"a": {"maxLength": 30}}}},
        {"json_schema": {"properties": {"b": {"maxLength": 30}}}},
        {"thinking_budget": {"max_tokens": 3, "end": "</think>"}},
    ]
    for _ in range(2):
        with pytest.raises(ValueError, match="takes more than 40000 steps"):
            lk.from_config({"chain": links}, vocabulary, limits=limits)
        for link in links:
            # Each by itself is allowed, and cached then.
            lk.from_config(link, vocabulary, limits=limits)
    # The same again costs nothing again.
    lk.from_config({"chain": links[:1] * 64}, vocabulary, limits=limits)


def test_what_stands_in_a_schema_many_times_is_looked_at_once(tekken: lk.Vocabulary) -> None:
    def refused(count: int) -> None:
        schema = {"type": "array", "items": {"type": "string", "minLength": count}, "minItems": count}
        with pytest.raises(lk.errors.UnsupportedSchema, match=r"more than [0-9]+ states"):
            # With `closing`, strings are not shared, and have states for each character that is missing.
            lk.JsonSchema(schema, tekken, closing=1_000_000)

    refused(1000)
    # Not four times as often.
    assert calls(lambda: refused(2000)) < 3 * calls(lambda: refused(1000))
