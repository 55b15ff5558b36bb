"""Arguments that `ThinkingBudget` refuses, and states that outlive their processor."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from unittest import mock

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError, StaleAutomaton, StateFileError, VocabularyError
from tests.processors import four_logits
from tests.processors.four_logits import AB, LOGITS, NEVER, begun
from tests.processors.four_logits import on_either_path as after


def test_arguments_that_are_not_allowed() -> None:
    for wrong in (-1, 2**31, 1.0, True, "3", None):
        with pytest.raises(ConfigurationError, match=r"max_tokens is .*; allowed are integers from 0 to 2147483647"):
            lk.ThinkingBudget(wrong, "a", AB)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="end is empty; give at least one character, or a token id"):
        lk.ThinkingBudget(1, "", AB)
    with pytest.raises(ConfigurationError, match="start is empty"):
        lk.ThinkingBudget(1, "a", AB, start=b"")
    with pytest.raises(ConfigurationError, match="end is None of type NoneType; allowed are str, bytes and integer"):
        lk.ThinkingBudget(1, None, AB)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="start is the token id 4; allowed are ids from 0 to 3"):
        lk.ThinkingBudget(1, "a", AB, start=4)
    with pytest.raises(ConfigurationError, match="end is the EOS id 3, which ends the whole text, not only a section"):
        lk.ThinkingBudget(1, 3, AB)
    with pytest.raises(ConfigurationError, match="end has 257 bytes; allowed are up to 256"):
        lk.ThinkingBudget(1, "a" * 257, AB)
    with pytest.raises(VocabularyError, match="vocabulary is a list"):
        lk.ThinkingBudget(1, "a", [b"a"])  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match="no EOS id"):
        lk.ThinkingBudget(1, "a", lk.Vocabulary([b"a"], eos_ids=[]))


def test_an_end_that_the_tokens_cannot_spell() -> None:
    with pytest.raises(VocabularyError, match=r"cannot spell b'abc', which completes the end marker b'abc' after b''"):
        lk.ThinkingBudget(1, "abc", AB)
    some = lk.Vocabulary([b"xa", b"ab", b"c", None], eos_ids=[3])
    with pytest.raises(VocabularyError, match=r"cannot spell b'b', which completes the end marker b'ab' after b'a'"):
        lk.ThinkingBudget(1, "ab", some)
    # An end marker that no tokens can begin does no harm.
    whole = lk.Vocabulary([b"x", b"ab", b"c", None], eos_ids=[3])
    assert after(lk.ThinkingBudget(0, "abc", whole), [], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    half = lk.Vocabulary([b"ab", b"abc", b"x", None], eos_ids=[3])
    with pytest.raises(VocabularyError, match=r"after b'ab'"):
        lk.ThinkingBudget(0, "abc", half)


def test_ids_and_logits_of_another_model() -> None:
    budget = lk.ThinkingBudget(1, "a", AB)
    with pytest.raises(VocabularyError, match="row 0 has the token 4, but the vocabulary has ids from 0 to 3"):
        begun(budget, [4])
    for tensors in (False, True):
        path = mock.patch.object(torch.compiler, "is_compiling", return_value=tensors)
        with path, pytest.raises(VocabularyError, match="the logits have 3 columns"):
            four_logits.after(budget, [], LOGITS[:3])
    assert after(budget, [], [*LOGITS, 5.0]) == [*LOGITS, 5.0]
    assert after(budget, [1], [*LOGITS, 5.0]) == [0.5, NEVER, NEVER, NEVER, NEVER]


def test_a_state_outlives_its_processor_only_with_a_copy() -> None:
    budget = lk.ThinkingBudget(1, "bab", AB)
    state = begun(budget, [0])
    for copied in (copy.deepcopy(budget), pickle.loads(pickle.dumps(budget))):
        assert copied == budget
        assert after(copied, [0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    del budget, copied
    other = lk.ThinkingBudget(1, "b", AB)
    other.handle()
    with pytest.raises(StaleAutomaton, match="no longer in the registry"):
        other.advance(state, torch.tensor([0]))
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        for spent in (0, 1):
            now = state._replace(spent=torch.tensor([spent]))
            out = other.process_logits(now, torch.tensor([LOGITS]), lk.Context.of([[]], 4))[1]
            assert out[0].tolist() == [NEVER, NEVER, NEVER, 0.0]


def test_a_state_that_cannot_be_is_refused(tmp_path: Path) -> None:
    budget = lk.ThinkingBudget(1, "bab", AB)
    state = begun(budget, [0])
    for field, value in (("spent", -1), ("budget", -1), ("inside", 0), ("inside", 99), ("inside", 1)):
        lk.save_state(tmp_path / "state", state._replace(**{field: torch.tensor([value])}), budget)
        if (field, value) == ("inside", 1):
            # Too few are as good as another budget's: they lead nowhere that is not there.
            lk.load_state(tmp_path / "state", budget)
            continue
        with pytest.raises(StateFileError, match=r"is not an integer from|states of a section"):
            lk.load_state(tmp_path / "state", budget)
