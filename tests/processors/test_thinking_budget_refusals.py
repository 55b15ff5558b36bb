"""Arguments that `ThinkingBudget` refuses, and states that outlive their processor."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any
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
    for name in ("grace", "min_tokens"):
        with pytest.raises(ConfigurationError, match=f"{name} is 1.5; allowed are integers from 0 to 2147483647"):
            lk.ThinkingBudget(1, "a", AB, **{name: 1.5})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="min_tokens is 2, greater than max_tokens=1; give at most 1"):
        lk.ThinkingBudget(1, "a", AB, min_tokens=2)
    with pytest.raises(ConfigurationError, match="end is None of type NoneType; allowed are str, bytes and integer"):
        lk.ThinkingBudget(1, None, AB)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="start is the token id 4; allowed are ids from 0 to 3"):
        lk.ThinkingBudget(1, "a", AB, start=4)
    with pytest.raises(ConfigurationError, match="end is the EOS id 3, which ends the whole text, not only a section"):
        lk.ThinkingBudget(1, 3, AB)
    with pytest.raises(ConfigurationError, match="end has 257 bytes; allowed are up to 256"):
        lk.ThinkingBudget(1, "a" * 257, AB)
    with pytest.raises(VocabularyError, match="vocabulary is of type list"):
        lk.ThinkingBudget(1, "a", [b"a"])  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match="no EOS id"):
        lk.ThinkingBudget(1, "a", lk.Vocabulary([b"a"], eos_ids=[]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"end": []}, "end is an empty list; give at least one marker"),
        ({"end": ["a", ""]}, r"end\[1\] is empty; give at least one character"),
        ({"end": ["a", "b", "a"]}, r"end\[2\] is 'a', which end has already; leave it out"),
        ({"end": ["a", 3]}, r"end\[1\] is the EOS id 3"),
        ({"end": ["ab", "a"]}, "'ab' is forced at the end of a section, but another end marker occurs in it before"),
        ({"end": 7.5}, r"end is 7.5 of type float; allowed are str, bytes and integer"),
        ({"message": ""}, "message is ''; allowed is a str with at least one character"),
        ({"message": b"a"}, "message is b'a' of type bytes; allowed is a str"),
        ({"message": "\ud800"}, "message has a lone surrogate at position 0"),
        ({"message": "aa"}, "'aaa' is forced at the end of a section, but another end marker occurs in it before"),
        ({"grace_at": []}, "grace_at is an empty list; give at least one text"),
        ({"grace_at": "a"}, "grace_at is the single text 'a'; give a list of texts"),
        ({"grace_at": ["a", 1]}, r"grace_at\[1\] is 1 of type int; allowed is a str"),
        ({"pause": ["ab"]}, r"pause\[0\] is 'ab'; give a pair of markers, \(begin, end\)"),
        ({"pause": [("b", "ab", "b")]}, r"give a pair of markers"),
        ({"pause": "ab"}, "pause is the single text 'ab'; give a list of pairs of markers"),
        ({"pause": [("b", 9)]}, r"pause\[0\]\[1\] is the token id 9; allowed are ids from 0 to 3"),
        ({"pause": [("b", "a")]}, r"pause\[0\]\[1\] is 'a', which ends the section; give another marker"),
        ({"pause": [("b", "bb"), ("b", "aa")]}, r"pause\[1\] begins with 'b', as another pause does"),
        ({"message": "b", "pause": [("b", "bb")]}, "'ba' is forced at the end of a section, but may begin a pause"),
        (
            {"message": "a" * 1000, "end": "b" * 60},
            "the texts of the thinking budget have 1070 bytes together; allowed are up to",
        ),
    ],
)
def test_texts_that_are_not_allowed(arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"end": "a", "grace": 1, "grace_at": ["0123456789"]} | arguments
    with pytest.raises(ConfigurationError, match=message):
        lk.ThinkingBudget(1, vocabulary=AB, **given)


def test_a_message_that_names_a_special_token() -> None:
    named = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3], special={"<t>": 2})
    for message in ("<t>", "a<t>"):
        with pytest.raises(ConfigurationError, match="which contains the name of a special token; give ordinary text"):
            lk.ThinkingBudget(1, "a", named, message=message)


def test_a_character_that_the_tokens_cannot_complete() -> None:
    half = lk.Vocabulary([b"a", b"b", b"\xc3", None], eos_ids=[3])
    with pytest.raises(
        VocabularyError, match=r"cannot complete a character of which only some bytes.*leave out message and grace"
    ):
        lk.ThinkingBudget(1, "a", half, grace=1)
    assert after(lk.ThinkingBudget(1, "a", half), [2], LOGITS) == [0.5, NEVER, NEVER, NEVER]


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
    for field, value in (
        ("spent", -1),
        ("budget", -1),
        ("closed_at", -1),
        ("inside", 0),
        ("inside", 99),
        ("inside", 1),
    ):
        lk.save_state(tmp_path / "state", state._replace(**{field: torch.tensor([value])}), budget)
        if (field, value) == ("inside", 1):
            # Too few are as good as another budget's: they lead nowhere that is not there.
            lk.load_state(tmp_path / "state", budget)
            continue
        with pytest.raises(StateFileError, match=r"is not an integer from|states of a section"):
            lk.load_state(tmp_path / "state", budget)


def test_options_that_cannot_be_are_refused(tmp_path: Path) -> None:
    budget = lk.ThinkingBudget(1, "bab", AB, grace=2, grace_at=["a"], min_tokens=1, pause=[("aa", "bb")])
    state = begun(budget, [0])
    lk.save_state(tmp_path / "state", state, budget)
    assert torch.equal(lk.load_state(tmp_path / "state", budget).options, state.options)
    names = ("grace", "min_tokens", "breaks", "paused", "held")
    for name, value in (("grace", -1), ("breaks", 99), ("paused", 99), ("held", 1), ("held", 2**31 - 1)):
        options = state.options.clone()
        options[0, names.index(name)] = value
        lk.save_state(tmp_path / "state", state._replace(options=options), budget)
        with pytest.raises(
            StateFileError, match=r"is not an integer from|states of a section|more ends of lines and pauses"
        ):
            lk.load_state(tmp_path / "state", budget)
    lk.save_state(tmp_path / "state", state._replace(options=state.options[:, :3]), budget)
    with pytest.raises(StateFileError, match="options has 3 columns"):
        lk.load_state(tmp_path / "state", budget)
    # The states in which the end is held back are only looked up.
    held = state._replace(at=state.at._replace(state=state.at.state + state.options[0, 4]))
    lk.save_state(tmp_path / "state", held, budget)
    with pytest.raises(StateFileError, match="states of a section"):
        lk.load_state(tmp_path / "state", budget)
