"""A single row that grows takes a short way, and is where the histories alone would have it, whatever calls come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.protocol import leaves
from logitkit.runtime.constraint_row import ConstraintRow
from logitkit.runtime.single_row import can_step
from logitkit.tracking import HistoryRows, Tracker
from logitkit.tracking.generation import Port, Room
from logitkit.tracking.histories import Histories
from logitkit.tracking.prompt_layout import PromptLayout

VOCABULARY = lk.Vocabulary([b"0", b"1", b"01", None], eos_ids=[3])
SIZE = 4
CALLS = st.lists(
    st.tuples(st.sampled_from(["grow", "grow", "grow", "repeat", "back", "jump", "other"]), st.integers(0, 3)),
    max_size=16,
)
NESTING = lk.Vocabulary([b"[", b"]", b"[[", None], eos_ids=[3])
LISTS = {"type": "array", "items": {"$ref": "#"}, "maxItems": 1}
STEPPED: dict[str, Any] = {
    "Regex": lk.Regex("0(?:1|01)*", VOCABULARY),
    "lists": lk.JsonSchema(LISTS, NESTING, max_depth=3),
    "closing": lk.JsonSchema(LISTS, NESTING, closing=6),
    "finite": lk.JsonSchema({"enum": [[], [[]]]}, NESTING),
}
PENALTY = lk.RepetitionPenalty(2.0, window=4)
PROCESSORS: dict[str, Any] = {**STEPPED, "penalty": PENALTY, "chain": lk.chain(PENALTY, STEPPED["Regex"], lk.TopK(3))}
REGEX = STEPPED["Regex"]


class Alone:
    """The histories, without the short way."""

    def __init__(self, processor: Any, prompt: Tensor | None = None) -> None:
        layout = PromptLayout(prompt, None)
        self.histories = Histories(processor, processor.advance, layout, Room(), 256)

    def __call__(self, ids: list[int], columns: int = SIZE) -> tuple[Any, lk.Context]:
        return self.histories.resolve(torch.tensor([ids]), Port(columns, torch.device("cpu")))


def step(tracker: Tracker[Any], ids: list[int], width: int = 8, columns: int = SIZE) -> ConstraintRow | None:
    return tracker.step(np.array(ids, f"i{width}").tobytes(), width, columns)


def resolve(tracker: Tracker[Any], ids: list[int], columns: int = SIZE) -> tuple[Any, lk.Context]:
    state, context = tracker.resolve(torch.tensor([ids]), vocabulary_size=columns)
    tracker.answer(state)
    return state, context


def same(found: Any, wanted: Any) -> bool:
    pairs = list(zip(leaves(found), leaves(wanted), strict=True))
    return all(one.dtype == other.dtype and torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("name", PROCESSORS)
@given(calls=CALLS, plain=st.booleans(), told=st.booleans())
def test_states_are_those_of_the_histories_alone(
    name: str, calls: list[tuple[str, int]], plain: bool, told: bool
) -> None:
    processor = PROCESSORS[name]
    prompt = torch.tensor([[2, 1]]) if told else None
    alone, tracker = Alone(processor, prompt), Tracker(processor, prompt=prompt, plain=plain and not told)
    ids, other, begins = [2, 1], [2, 1], 2
    for first, (call, token) in enumerate([("repeat", 0), *calls]):
        if call == "other":
            # Another sequence with the same prompt takes its turn.
            ids, other = other, ids
        back = ids[:-1] if len(ids) > begins else ids
        ids = {"grow": [*ids, token], "back": back, "jump": [*ids, token, 0]}.get(call, ids)
        if call == "jump" and not told:
            # A longer text is a new prompt, before which nothing goes back.
            begins, other = len(ids), ids
        expected, wanted = alone(ids)
        row = step(tracker, ids)
        assert row is None or name in STEPPED
        if row is None:
            state, context = resolve(tracker, ids)
            assert same(state, expected)
            assert context.lengths.equal(wanted.lengths)
            assert context.prompt.equal(wanted.prompt)
        else:
            assert plain or first
            logits = torch.zeros(1, SIZE)
            row.process(logits.numpy()[0], -np.inf, 0.0)
            assert torch.equal(logits, processor.process_logits(expected, torch.zeros(1, SIZE), wanted)[1])
        assert same(tracker.state, expected)


def test_a_row_begins_once_with_ids_that_are_text() -> None:
    class Later(lk.Regex):
        def init_state(self, context: lk.Context) -> Any:
            return super().init_state(context)

    assert step(Tracker(Later("01", VOCABULARY), plain=True), [2, 1]) is None
    assert step(Tracker(REGEX), [2, 1]) is None
    tracker = Tracker(REGEX, plain=True)
    assert step(tracker, [2, 1], width=2) is None
    assert step(tracker, [2, -1]) is None
    assert step(tracker, []) is None
    with pytest.raises(VocabularyError, match="3 columns"):
        step(tracker, [2, 1], columns=3)
    assert tracker.state is None
    assert step(tracker, [2, 1]) is not None
    assert step(tracker, [1, 1]) is None


@pytest.mark.parametrize("plain", [True, False])
def test_ids_may_become_wider(plain: bool) -> None:
    tracker = Tracker(REGEX, plain=plain)
    if plain:
        step(tracker, [2, 1], width=4)
    else:
        tracker.resolve(torch.tensor([[2, 1]], dtype=torch.int32), vocabulary_size=SIZE)
    row = step(tracker, [2, 1, 0])
    assert row is not None
    assert same(tracker.state, Alone(REGEX, torch.tensor([[2, 1]]))([2, 1, 0])[0])
    assert step(tracker, [2, 0, 0]) is None


@pytest.mark.parametrize("plain", [True, False])
def test_an_interruption_loses_nothing(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker, alone = Tracker(REGEX, plain=plain), Alone(REGEX)
    ids = [2, 1, 0, 1]
    if not plain:
        resolve(tracker, ids[:2])
    for length in (2, 3, 4):
        alone(ids[:length])
        step(tracker, ids[:length])

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(HistoryRows, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            resolve(tracker, [2, 1, 0, 2])
    assert same(tracker.state, alone(ids)[0])
    assert step(tracker, [*ids, 2]) is not None
    assert same(tracker.state, alone([*ids, 2])[0])
    for again in ([2, 1, 0], [2, 1, 0, 2], ids, [*ids, 2], [*ids, 2, 1]):
        assert same(resolve(tracker, again)[0], alone(again)[0])


def test_what_does_more_than_mask_is_not_stepped() -> None:
    class Louder(lk.Regex):
        def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
            return super().process_logits(state, logits * 2, context)

    assert all(map(can_step, STEPPED.values()))
    assert not can_step(Louder("01", VOCABULARY))
    assert not can_step(PROCESSORS["chain"])


def test_what_is_shown_may_be_overwritten_afterwards() -> None:
    tracker, ids = Tracker(PENALTY, prompt=torch.tensor([[0, 0, 1]])), torch.tensor([[0, 0, 1, 1, 2, 3]])
    for length in (3, 4, 5, 6):
        state, _ = tracker.resolve(ids[:, :length], vocabulary_size=SIZE)
    ids[0, -1] = 2
    again, _ = tracker.resolve(ids, vocabulary_size=SIZE)
    assert sorted(state.history.tokens[0].tolist()) == [1, 1, 2, 3]
    assert sorted(again.history.tokens[0].tolist()) == [1, 1, 2, 2]


def test_logits_of_another_size_have_states_of_their_own() -> None:
    tracker = Tracker(PENALTY)
    resolve(tracker, [0, 1])
    assert resolve(tracker, [0, 1, 1], columns=SIZE + 1)[1].vocabulary_size == SIZE + 1


@pytest.mark.parametrize("wrong", [[0, 3], [0, 0, 2, 1], [0, 0, 1, -1]])
def test_ids_that_cannot_be_are_refused(wrong: list[int]) -> None:
    tracker = Tracker(PENALTY, prompt=torch.tensor([[0, 0, 1]]))
    resolve(tracker, [0, 0, 1])
    with pytest.raises(ConfigurationError):
        resolve(tracker, wrong)


@dataclass(frozen=True)
class Fussy(lk.RepetitionPenalty):
    def advance(self, state: Any, tokens: Tensor) -> Any:
        if 3 in tokens.tolist():
            raise VocabularyError("three")
        return super().advance(state, tokens)


def test_nothing_changes_where_a_processor_fails() -> None:
    tracker: Tracker[Any] = Tracker(Fussy(2.0))
    resolve(tracker, [0, 0])
    with pytest.raises(VocabularyError):
        resolve(tracker, [0, 0, 3])
    assert tracker.state.occurred.number.tolist() == [1]
    state, context = resolve(tracker, [0, 0, 2])
    assert state.occurred.ids[0, :2].tolist() == [0, 2]
    assert context.lengths.tolist() == [3]


def test_the_first_ids_may_be_the_prompt_of_all() -> None:
    tracker = Tracker(PENALTY, one_prompt=True)
    resolve(tracker, [2, 1])
    assert resolve(tracker, [2, 1, 0, 3])[1].prompt.tolist() == [[2, 1]]
    with pytest.raises(ConfigurationError, match="does not begin with its prompt"):
        resolve(tracker, [2, 0, 3])
