"""SequenceBias against transformers, and its texts against brute force over tokenizations."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import SequenceBiasLogitsProcessor

import logitkit as lk
from logitkit.errors import ConfigurationError, StateFileError
from logitkit.tokens.tokenizations import tokenizations_of
from tests.processors.four_logits import NEVER, on_either_path
from tests.processors.test_lengths_and_prompts import check, random_logits

LOGITS = [1.0, -2.0, 0.5, 4.0]
ids = st.sampled_from([0, 1, 2, 3, 11])
sequences = st.lists(ids, min_size=1, max_size=4).map(tuple)
biases = st.dictionaries(sequences, st.sampled_from([-7.25, -0.1, 0.3, 2.0, 100.0]), min_size=1, max_size=9)

# Arguments of types that no type checker lets pass.
ANY: Any = lk


@pytest.mark.parametrize(
    ("bias", "prompt", "output", "wanted"),
    [
        ({(0, 1): 2.0}, [0], [], [1.0, 0.0, 0.5, 4.0]),
        ({(0, 1): 2.0}, [], [0], [1.0, 0.0, 0.5, 4.0]),
        ({(0, 1): 2.0}, [], [1], LOGITS),
        ({(0, 1): 2.0}, [], [], LOGITS),
        # A sequence may begin in the prompt, and several may end in one token.
        ({(2, 0, 1): 2.0, (0, 1): 1.0, (1,): 0.5}, [2], [0], [1.0, 1.5, 0.5, 4.0]),
        ({(3,): -1e4}, [], [], [1.0, -2.0, 0.5, -9996.0]),
        ({}, [0], [1], LOGITS),
    ],
)
def test_by_hand(bias: Any, prompt: list[int], output: list[int], wanted: list[float]) -> None:
    assert on_either_path(lk.SequenceBias(bias), output, LOGITS, prompt) == wanted


def test_a_ban_stays_one() -> None:
    assert on_either_path(lk.SequenceBias({(0,): 5.0}), [], [NEVER, 1.0]) == [NEVER, 1.0]


@given(st.lists(ids, min_size=1, max_size=5), st.lists(ids, max_size=6), biases, st.integers(0, 2**32))
def test_it_is_that_of_transformers(prompt: list[int], output: list[int], bias: Any, seed: int) -> None:
    check(lk.SequenceBias(bias), SequenceBiasLogitsProcessor(bias), prompt, output, random_logits(seed))


@given(st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=6), st.text("ab", min_size=1, max_size=4))
def test_texts_are_biased_in_all_tokenizations(tokens: list[str], text: str) -> None:
    vocabulary = lk.Vocabulary([*(token.encode() for token in tokens), None], eos_ids=[len(tokens)])
    wanted = {
        picked
        for length in range(1, len(text) + 1)
        for picked in itertools.product(range(len(tokens)), repeat=length)
        if "".join(tokens[i] for i in picked) == text
    }
    if wanted:
        found = tokenizations_of(text, vocabulary)
        assert len(found) == len(wanted)
        assert {*found} == wanted == {*lk.SequenceBias.of_texts({text: 1.0}, vocabulary).bias}
    else:
        with pytest.raises(ConfigurationError, match="cannot be written with the tokens of the vocabulary"):
            tokenizations_of(text, vocabulary)


def test_the_name_of_a_special_token_is_text_like_any_other() -> None:
    tokens = [b"<", b"e", b">", b"e>", None]
    vocabulary = lk.Vocabulary(tokens, eos_ids=[4], special={"<e>": 4})
    assert sorted(lk.SequenceBias.of_texts({"<e>": 1.0}, vocabulary).bias) == [(0, 1, 2), (0, 3)]
    without = lk.Vocabulary([b"a", None], eos_ids=[1], special={"<e>": 1})
    with pytest.raises(ConfigurationError, match="<e>"):
        lk.SequenceBias.of_texts({"<e>": 1.0}, without)


def test_too_many_tokenizations_are_refused_at_once() -> None:
    vocabulary = lk.Vocabulary([b"a", b"aa", b"aaa", None], eos_ids=[3])
    with pytest.raises(ConfigurationError, match="tokenizations; allowed are 1 to 1024; give a shorter text"):
        lk.SequenceBias.of_texts({"a" * 200: 1.0}, vocabulary)


def test_its_configuration_is_that_of_transformers() -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
    config = {"sequence_bias": [[[0, 1], 2.0], [[1], -1.0]]}
    made = lk.from_config(config, vocabulary)
    assert made == lk.SequenceBias({(0, 1): 2.0, (1,): -1.0})
    assert hash(made) == hash(lk.SequenceBias({(1,): -1.0, (0, 1): 2.0}))
    assert lk.to_config(made) == config
    with pytest.raises(ConfigurationError, match=r"\[1\].*only one pair for each sequence"):
        lk.from_config({"sequence_bias": [[[0], 2.0], [[0], 1.0]]}, vocabulary)
    with pytest.raises(ConfigurationError, match=r"\[0\].*a pair \[token ids, value\]"):
        lk.from_config({"sequence_bias": [[[0]]]}, vocabulary)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: ANY.SequenceBias([1]), "bias is .*; give a mapping from tuples"),
        (lambda: lk.SequenceBias({(): 1.0}), "bias has an empty sequence"),
        (lambda: lk.SequenceBias({(-1,): 1.0}), "bias has -1; allowed are token ids"),
        (lambda: lk.SequenceBias({(1, 2): -math.inf}), r"bias of \(1, 2\) is -inf; allowed .* use BannedStrings"),
        # Together in a batch, the states of these two would take 4 bytes for each of 65 * 16,385 ids in each row.
        (
            lambda: lk.SequenceBias({(1,) * 65: 1.0}),
            "1 sequences, the longest of 65 ids; allowed are up to 16384 .* 64",
        ),
        (lambda: lk.SequenceBias({(i,): 1.0 for i in range(16385)}), "16385 sequences, the longest of 1 ids"),
        (
            lambda: lk.SequenceBias.of_texts({"": 1.0}, lk.Vocabulary([b"a", None], eos_ids=[1])),
            "the text to bias is ''",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        make()


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("remembered", 3, "longer or shorter than the tokens that it remembers"),
        ("last", -2, "a token id is below -1"),
        ("bias", 1e5, "bias is not"),
    ],
)
def test_a_corrupt_state_is_refused(field: str, value: float, problem: str, tmp_path: Path) -> None:
    processor = lk.SequenceBias({(0, 1, 2): 1.0})
    state: Any = processor.init_state(lk.Context.of([[1, 2]], 4))
    state = state._replace(**{field: torch.full_like(getattr(state, field), value)})
    lk.save_state(tmp_path / "state", state, processor)
    with pytest.raises(StateFileError, match=problem):
        lk.load_state(tmp_path / "state", processor)
