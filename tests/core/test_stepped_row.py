"""A row that is stepped without a resolver is where a resolver alone would have it, whatever calls come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import VocabularyError
from logitkit.history import HistoryResolver
from logitkit.history.stepped_row import SteppedRow
from logitkit.state import leaves
from logitkit.stepping import can_step

VOCABULARY = lk.Vocabulary([b"0", b"1", b"01", None], eos_ids=[3])
CALLS = st.lists(
    st.tuples(st.sampled_from(["grow", "grow", "grow", "repeat", "back", "jump"]), st.integers(0, 3)), max_size=12
)
NESTING = lk.Vocabulary([b"[", b"]", b"[[", None], eos_ids=[3])
LISTS = {"type": "array", "items": {"$ref": "#"}, "maxItems": 1}
PROCESSORS: dict[str, Any] = {
    "Regex": lk.Regex("0(?:1|01)*", VOCABULARY),
    "lists": lk.JsonSchema(LISTS, NESTING, max_depth=3),
    "closing": lk.JsonSchema(LISTS, NESTING, closing=6),
    "finite": lk.JsonSchema({"enum": [[], [[]]]}, NESTING),
}


@pytest.mark.parametrize("name", PROCESSORS)
@given(calls=CALLS, starts=st.booleans())
def test_states_are_those_of_a_resolver_alone(name: str, calls: list[tuple[str, int]], starts: bool) -> None:
    processor = PROCESSORS[name]
    alone, behind = HistoryResolver(processor), HistoryResolver(processor)
    stepped = SteppedRow(processor)
    ids, prompt = [2, 1], 2
    for calls_before, (call, token) in enumerate([("repeat", 0), *calls]):
        # A text that goes back behind its prompt is two prompts to a resolver, which may be those of two sequences.
        back = ids[:-1] if len(ids) > prompt else ids
        ids = {"grow": [*ids, token], "repeat": ids, "back": back, "jump": [*ids, token, 0]}[call]
        prompt = len(ids) if call == "jump" else prompt
        shown = np.array([ids])
        expected, _ = alone.resolve(torch.from_numpy(shown), vocabulary_size=4)
        row = stepped.step(shown.tobytes(), 8, 4)
        if row is None and starts:
            row = stepped.start(shown.tobytes(), 8, 4)
            assert (row is not None) == (not calls_before)
        if row is None:
            for missed in stepped.missed():
                behind.resolve(missed, vocabulary_size=stepped.columns)
            state, _ = behind.resolve(torch.from_numpy(shown), vocabulary_size=4)
            stepped.begin(shown.tobytes(), 8, 4, state)
        for found, wanted in zip(leaves(stepped.state), leaves(expected), strict=True):
            assert found.dtype == wanted.dtype
            assert torch.equal(found, wanted)
        logits = torch.zeros(1, 4)
        if row is not None:
            row.process(logits.numpy()[0], -np.inf, 0.0)
            context = lk.Context.of([[]], vocabulary_size=4)
            assert torch.equal(logits, processor.process_logits(expected, torch.zeros(1, 4), context)[1])


def test_a_row_starts_once_with_ids_that_a_resolver_takes() -> None:
    class Later(lk.Regex):
        def init_state(self, context: lk.Context) -> Any:
            return super().init_state(context)

    regex, prompt = PROCESSORS["Regex"], np.array([2, 1])
    assert SteppedRow(Later("01", VOCABULARY)).start(prompt.tobytes(), 8, 4) is None
    stepped = SteppedRow(regex)
    for ids in (prompt.astype(np.int16), np.array([2, -1]), prompt[:0]):
        assert stepped.start(ids.tobytes(), ids.itemsize, 4) is None
    with pytest.raises(VocabularyError, match="3 columns"):
        stepped.start(prompt.tobytes(), 8, 3)
    assert stepped.state is None
    assert stepped.start(prompt.tobytes(), 8, 4) is not None
    assert stepped.start(prompt.tobytes(), 8, 4) is None


@pytest.mark.parametrize("begun", [True, False])
def test_ids_may_become_wider(begun: bool) -> None:
    regex, stepped = PROCESSORS["Regex"], SteppedRow(PROCESSORS["Regex"])
    prompt, after = np.array([2, 1], np.int32), np.array([2, 1, 0], np.int64)
    if begun:
        stepped.begin(prompt.tobytes(), 4, 4, regex.init_state(lk.Context.of([[2, 1]], vocabulary_size=4)))
    else:
        stepped.start(prompt.tobytes(), 4, 4)
    row = stepped.step(after.tobytes(), 8, 4)
    assert row is not None
    wanted, _ = HistoryResolver(regex, prompt=torch.tensor([[2, 1]])).resolve(
        torch.from_numpy(after)[None], vocabulary_size=4
    )
    assert torch.equal(row.state.state, wanted.state)
    assert stepped.step(np.array([2, 0, 0]).tobytes(), 8, 4) is None
    assert [shown.tolist() for shown in stepped.missed()] == [[[2, 1]], [[2, 1, 0]]][begun:]


def test_what_was_missed_is_told_again_after_an_interruption() -> None:
    regex, stepped = PROCESSORS["Regex"], SteppedRow(PROCESSORS["Regex"])
    ids = np.array([2, 1, 0, 1])
    stepped.start(ids[:2].tobytes(), 8, 4)
    assert stepped.step(ids[:3].tobytes(), 8, 4) is not None
    telling = stepped.missed()
    assert next(telling).tolist() == [[2, 1]]
    del telling
    row = stepped.step(ids.tobytes(), 8, 4)
    assert row is not None
    wanted, _ = HistoryResolver(regex, prompt=torch.tensor([[2, 1]])).resolve(
        torch.from_numpy(ids)[None], vocabulary_size=4
    )
    assert torch.equal(row.state.state, wanted.state)
    assert [shown.tolist() for shown in stepped.missed()] == [[ids[:n].tolist()] for n in (2, 3, 4)]
    assert stepped.state is None


def test_what_does_more_than_mask_is_not_stepped() -> None:
    class Louder(lk.Regex):
        def process_logits(self, state: Any, logits: torch.Tensor, context: lk.Context) -> Any:
            return super().process_logits(state, logits * 2, context)

    assert all(map(can_step, PROCESSORS.values()))
    assert not can_step(Louder("01", VOCABULARY))
    assert not can_step(lk.chain(lk.Regex("01", VOCABULARY), lk.RepetitionPenalty(2.0)))
