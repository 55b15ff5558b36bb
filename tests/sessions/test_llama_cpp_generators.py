"""Generators of one `Llama` share its context, and write its cache to files."""

from __future__ import annotations

from pathlib import Path

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions import continuous
from tests.sessions.continuation import PROMPT
from tests.sessions.engines import loaded, watched


def test_a_second_generator_feeds_only_what_is_new_after_another_state_took_the_context() -> None:
    llama, _ = loaded("llama.cpp")
    begun = continuous(llama)(PROMPT, max_new_tokens=4)
    other = continuous(llama, processor=lk.FrequencyPenalty(0.2))
    # The context of the `Llama` now holds this text; the first one is a copy, made when its turn ended.
    other("Something else takes the place.", max_new_tokens=1)
    with watched(llama) as fed:
        found = other(begun, max_new_tokens=3)
    assert sum(fed) == 3
    assert found.rows[0][: len(begun.rows[0])] == begun.rows[0]


def test_no_generator_takes_a_way_to_make_caches() -> None:
    llama, _ = loaded("llama.cpp")
    continuous(llama)
    with pytest.raises(ConfigurationError, match="make_cache is given"):
        continuous(llama, make_cache=list)


def test_a_cache_of_a_single_token_is_saved(tmp_path: Path) -> None:
    llama, _ = loaded("llama.cpp")
    text = continuous(llama)
    state = text("", max_new_tokens=1)
    assert state.cached == 1
    state.save(tmp_path)
    text("Something else takes the place.", max_new_tokens=1)
    with watched(llama) as fed:
        found = text(text.load(tmp_path), max_new_tokens=2)
    assert sum(fed) == 2
    assert found.rows == text("", max_new_tokens=3).rows
