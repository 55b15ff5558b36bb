"""Arguments that `StopStrings` refuses, and states that outlive their processor."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from unittest import mock

import pytest
import torch

import logitkit as lk
from logitkit.errors import (
    ArgumentTypeError,
    ConfigurationError,
    PatternTooLarge,
    StaleAutomaton,
    StateFileError,
    VocabularyError,
)
from tests.processors.four_logits import AB, LOGITS, NEVER, begun
from tests.processors.four_logits import on_either_path as after
from tests.processors.stops import ENDED, asked


def test_values_that_are_not_stops() -> None:
    with pytest.raises(ConfigurationError, match="stops is the single text 'a'; give a list"):
        lk.StopStrings("a", AB)
    with pytest.raises(ConfigurationError, match="stops is 3; give a list"):
        lk.StopStrings(3, AB)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="stops is empty; give at least one"):
        lk.StopStrings([], AB)
    with pytest.raises(ConfigurationError, match=r"stops\[1\] is empty; give at least one character"):
        lk.StopStrings(["a", ""], AB)
    with pytest.raises(ConfigurationError, match=r"stops\[0\] is True of type bool; allowed are str, bytes and"):
        lk.StopStrings([True], AB)
    with pytest.raises(ConfigurationError, match=r"stops\[0\] is 1\.5 of type float"):
        lk.StopStrings([1.5], AB)  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match=r"stops\[0\] is the token id 4; allowed are ids from 0 to 3"):
        lk.StopStrings([4], AB)
    with pytest.raises(ConfigurationError, match=r"stops\[0\] is the token id -1"):
        lk.StopStrings([-1], AB)
    with pytest.raises(ConfigurationError, match="lone surrogate at position 1"):
        lk.StopStrings(["a\ud800"], AB)


def test_other_arguments_of_the_wrong_type() -> None:
    with pytest.raises(ConfigurationError, match="include_prompt is 1; allowed are True and False"):
        lk.StopStrings(["a"], AB, include_prompt=1)  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match=r"vocabulary is of type list; give a logitkit\.Vocabulary"):
        lk.StopStrings(["a"], [b"a"])  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match="no EOS id"):
        lk.StopStrings(["a"], lk.Vocabulary([b"a"], eos_ids=[]))
    with pytest.raises(PatternTooLarge, match="more than 4 states"):
        lk.StopStrings(["abab"], AB, limits=lk.Limits(states=4))


def test_ids_and_logits_of_another_model() -> None:
    stops = lk.StopStrings(["a"], AB)
    with pytest.raises(VocabularyError, match="has the token 4, but the vocabulary has ids from 0 to 3"):
        begun(stops, [4])
    for tensors in (False, True):
        with mock.patch.object(torch.compiler, "is_compiling", return_value=tensors):
            with pytest.raises(VocabularyError, match="the logits have 3 columns"):
                after(stops, [], LOGITS[:3])
            # Columns after the vocabulary do not change, like all others, until there is a stop.
            assert after(stops, [], [*LOGITS, 5.0]) == [*LOGITS, 5.0]
            assert after(stops, [0], [*LOGITS, 5.0]) == [*ENDED, NEVER]


def test_stops_outlive_neither_their_processor_nor_a_copy() -> None:
    stops = lk.StopStrings(["abbb"], AB)
    state = begun(stops, [0])
    for copied in (copy.deepcopy(stops), pickle.loads(pickle.dumps(stops))):
        assert copied == stops
        assert asked(copied, [0, 1, 1, 1]) == (0, 0, 4, 3)
    del stops, copied
    other = lk.StopStrings(["b"], AB)
    with pytest.raises(StaleAutomaton, match="no longer in the registry"):
        other.advance(state, torch.tensor([0]))
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        out = other.process_logits(state, torch.tensor([LOGITS]), lk.Context.of([[]], 4))[1]
    assert out[0].tolist() == ENDED


def test_the_state_of_another_processor() -> None:
    stops = lk.StopStrings(["ab"], AB)
    for state in (None, (begun(stops, [0]),)):
        for question in (stops.which, stops.place):
            with pytest.raises(ArgumentTypeError, match=r"not one of StopStrings; .* hook\.state\[0\]"):
                question(state)  # type: ignore[arg-type]


def test_a_state_that_cannot_be_is_refused(tmp_path: Path) -> None:
    stops = lk.StopStrings(["ab"], AB)
    state = begun(stops, [0, 1])
    for token, before in ((0, 3), (9, 3), (-1, 3), (1, 99), (1, 0)):
        wrong = state._replace(token=torch.tensor([token]), before=torch.tensor([before]))
        lk.save_state(tmp_path / "state", wrong, stops)
        with pytest.raises(StateFileError, match="completes no stop"):
            lk.load_state(tmp_path / "state", stops)
    lk.save_state(tmp_path / "state", state, stops)
    with pytest.raises(StateFileError, match="automaton"):
        lk.load_state(tmp_path / "state", lk.StopStrings(["ba"], AB))
