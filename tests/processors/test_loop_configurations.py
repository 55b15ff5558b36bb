"""`LoopStop`: configurations, refusals, and files with impossible states."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError, StateFileError, VocabularyError
from logitkit.reasoning.loop_state import LoopState
from tests.processors.four_logits import begun
from tests.registry import EOS, ids, vocabulary

# Arguments of types that no type checker lets pass.
ANY: Any = lk


def test_configurations() -> None:
    for config, written in (
        ({"loop_stop": 4}, {"loop_stop": 4}),
        ({"loop_stop": {}}, {"loop_stop": {}}),
        ({"loop_stop": {"count": 3, "max_period": 5, "then": "-0\n"}}, None),
        ({"loop_stop": {"min_period": 2, "min_tokens": 9, "then": 5, "start": "1"}}, None),
        ({"loop_stop": {"then": {"hex": "c3"}}}, None),
    ):
        made = lk.from_config(config, vocabulary())
        again = lk.to_config(made)
        assert lk.from_config(again, vocabulary()) == made
        assert written is None or again == written
    made = lk.from_config(
        {"loop_stop": 3, "stop_strings": ["a"], "thinking_budget": {"max_tokens": 2, "end": "b"}}, vocabulary()
    )
    assert [type(part).__name__ for part in made.processors] == ["ThinkingBudget", "LoopStop", "StopStrings"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 1}, "count is 1; allowed are integers from 2 to 65536"),
        ({"count": 2.5}, r"count is 2\.5; allowed are integers"),
        ({"max_period": 0}, "max_period is 0; allowed are integers from 1 to 4096"),
        ({"max_period": 4097}, "max_period is 4097; allowed"),
        ({"min_period": 65}, "min_period is 65, greater than max_period=64; give at most 64, or a greater max_period"),
        ({"min_tokens": -1}, "min_tokens is -1; allowed"),
        ({"start": "<think>"}, "start is '<think>', but then is None; give the end marker of reasoning"),
        ({"then": ""}, "then is empty"),
        ({"then": "x" * 257}, "then has 257 bytes; allowed are up to 256"),
        ({"then": EOS}, "then is the EOS id 1, which ends the whole text"),
        ({"then": "a", "start": 1.5}, r"start is 1\.5 of type float"),
    ],
    ids=str,
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        lk.LoopStop(vocabulary(), **arguments)


def test_a_vocabulary_is_needed() -> None:
    with pytest.raises(VocabularyError):
        ANY.LoopStop("abc")
    with pytest.raises(VocabularyError, match="no EOS"):
        lk.LoopStop(lk.Vocabulary([b"a"], eos_ids=[]))


def test_impossible_states_in_files_are_refused(tmp_path: Any) -> None:
    loops = lk.LoopStop(vocabulary(), count=2, max_period=3, then="ab")
    state: LoopState = begun(loops, ids(b"b", b"b"))

    def saved(changed: LoopState) -> None:
        lk.save_state(tmp_path / "state", changed, loops)
        lk.load_state(tmp_path / "state", loops)

    saved(state)
    one = torch.ones(1, dtype=torch.int64)
    for changed, message in (
        (state._replace(phase=one * 9), "phase is not an integer from 0 to 7"),
        (state._replace(left=-one), "left is not"),
        (state._replace(window=state.window[:, :2]), "different shapes"),
        (state._replace(run=state.run - 1), "run is not"),
        (state._replace(needed=state.needed * 0, window=state.window * 0), "too long for it"),
        (state._replace(inside=one * 99), "without 99 states"),
        (state._replace(at=state.at._replace(state=state.at.state + 2)), "of an automaton without 2 states"),
        (begun(loops, ids(b"ab"))._replace(phase=one), "row 0 closes a section, but is not inside of one"),
    ):
        with pytest.raises(StateFileError, match=message):
            saved(changed)
    lk.save_state(tmp_path / "state", state, loops)
    with pytest.raises(StateFileError, match="its rows have automata, but this LoopStop has none"):
        lk.load_state(tmp_path / "state", lk.LoopStop(vocabulary()))


def test_a_budget_with_the_same_markers_shares_the_automaton() -> None:
    budget = lk.ThinkingBudget(5, "ab", vocabulary(), "1")
    assert lk.LoopStop(vocabulary(), then="ab", start="1").automaton is budget.automaton
