"""Languages that are too large end soon, with an error that says what is too large."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable
from functools import partial

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.languages import Language, any_text, dispatch, either, json_schema, optional, repeat, sequence, tag
from tests.examples import of_all

VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
OBJECT = json_schema({"type": "object"})

# Generous: machines that run tests are slow.
SECONDS = 20

Step = Callable[[Language], Language]


def _after(step: Step, times: int) -> Language:
    language: Language = any_text(until="!")
    for _ in range(times):
        language = step(language)
    return language


def _tagged(inside: Language) -> Language:
    return dispatch({"<t>": tag("<t>", inside, "</t>")})


STEPS: dict[str, Step] = {
    "sequences": lambda x: sequence(x, "b"),
    "sequences from behind": lambda x: sequence("b", x),
    "options": lambda x: either(x, "b"),
    "what may be left out": optional,
    "repetitions": lambda x: repeat(sequence(x, "."), 1),
    "tags": lambda x: tag("<", x, ">"),
    "free text with tags": _tagged,
}


@pytest.mark.parametrize("name", of_all(STEPS, 2))
@pytest.mark.parametrize("times", [300, 100_000])
def test_deep_languages_are_refused(name: str, times: int) -> None:
    with pytest.raises(ConfigurationError, match="inside each other"):
        _after(STEPS[name], times).constraint(VOCABULARY)


@pytest.mark.parametrize("name", STEPS)
def test_languages_of_twenty_levels_can_be_used(name: str) -> None:
    language = _after(STEPS[name], 20)
    constraint = language.constraint(VOCABULARY)
    assert copy.deepcopy(constraint) == pickle.loads(pickle.dumps(constraint)) == constraint
    assert "AnyText" in repr(constraint)


def test_a_tag_that_nests_too_deeply_is_refused_before_its_trigger_is_looked_for() -> None:
    deep = _after(lambda x: sequence(x, "b"), 100_000)
    with pytest.raises(ConfigurationError, match="inside each other"):
        dispatch({"<t>": deep})


@pytest.mark.parametrize("combine", [sequence, either])
def test_doubling_is_refused(combine: Callable[[Language, Language], Language]) -> None:
    began = time.perf_counter()
    with pytest.raises(ConfigurationError, match="200,000 parts"):
        _after(lambda x: combine(x, x), 60).constraint(VOCABULARY)
    assert time.perf_counter() - began < SECONDS


@pytest.mark.parametrize(
    "language",
    [
        partial(dispatch, {"<t>": tag("<t>", OBJECT, "</t>")}, at_least=10**12),
        partial(repeat, OBJECT, 10**9, 10**12, ", "),
        partial(any_text, "</t>", max_tokens=10**30),
    ],
)
def test_large_counts_are_refused(language: Callable[[], Language]) -> None:
    began = time.perf_counter()
    with pytest.raises(PatternTooLarge):
        language().constraint(VOCABULARY)
    assert time.perf_counter() - began < SECONDS


def test_long_markers_are_refused_soon() -> None:
    names = {f"<special-token-number-{i}>": 256 + i for i in range(1, 9)}
    named = lk.Vocabulary([*VOCABULARY.tokens, *[None] * 8], eos_ids=[256], special=names)
    # Each name in a marker may be written as a token, or spelled: 256 ways for each of 60 markers.
    markers = [f"{number}".join(names) for number in range(60)]
    began = time.perf_counter()
    with pytest.raises(PatternTooLarge):
        any_text(until=markers).constraint(named)
    assert time.perf_counter() - began < SECONDS
