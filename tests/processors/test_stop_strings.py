"""`StopStrings`: a row ends at the first stop, whatever the tokens that spell it."""

from __future__ import annotations

from typing import Any, cast
from unittest import mock

import pytest
import torch

import logitkit as lk
from logitkit.stopping import StopAutomaton, stop_registry
from tests.processors.four_logits import AB, LOGITS, NEVER, begun
from tests.processors.four_logits import on_either_path as after
from tests.processors.stops import ENDED, asked
from tests.registry import EOS, PAD, vocabulary


def test_nothing_changes_before_a_stop() -> None:
    assert after(lk.StopStrings(["aab"], AB), [], LOGITS) == LOGITS
    assert after(lk.StopStrings(["aab"], AB), [0, 0], LOGITS) == LOGITS
    assert after(lk.StopStrings(["aab"], AB), [0], [torch.inf, NEVER, -0.0, NEVER]) == [torch.inf, NEVER, -0.0, NEVER]


def test_only_eos_after_a_stop() -> None:
    assert after(lk.StopStrings(["aab"], AB), [0, 0, 1], LOGITS) == ENDED
    assert after(lk.StopStrings(["aab"], AB), [0, 2], LOGITS) == ENDED
    assert after(lk.StopStrings(["aab"], AB), [0, 2, 0, 1], LOGITS) == ENDED


def test_a_stop_that_begins_again_within_itself() -> None:
    assert after(lk.StopStrings(["aab"], AB), [0, 0, 0, 1], LOGITS) == ENDED
    assert after(lk.StopStrings(["abab"], AB), [0, 2, 0, 1], LOGITS) == ENDED


def test_a_stop_within_a_token() -> None:
    assert after(lk.StopStrings(["a"], AB), [2], LOGITS) == ENDED
    assert after(lk.StopStrings(["b"], AB), [2], LOGITS) == ENDED


def test_eos_that_is_masked_already_has_logit_0() -> None:
    assert after(lk.StopStrings(["b"], AB), [1], [0.5, 1.0, 2.0, NEVER]) == [NEVER, NEVER, NEVER, 0.0]


def test_a_stop_in_the_prompt_counts_where_it_shall() -> None:
    assert after(lk.StopStrings(["ab"], AB), [], LOGITS, prompt=[0, 1]) == LOGITS
    assert after(lk.StopStrings(["ab"], AB), [1], LOGITS, prompt=[0]) == LOGITS
    assert after(lk.StopStrings(["ab"], AB, include_prompt=True), [], LOGITS, prompt=[0, 1]) == ENDED
    assert after(lk.StopStrings(["ab"], AB, include_prompt=True), [1], LOGITS, prompt=[0]) == ENDED
    assert after(lk.StopStrings(["ab"], AB, include_prompt=True), [0], LOGITS, prompt=[0]) == LOGITS


def test_eos_and_unknown_ids_of_a_prompt_are_passed_over() -> None:
    assert after(lk.StopStrings(["ab"], AB, include_prompt=True), [1], LOGITS, prompt=[3, 0, 99]) == ENDED
    assert after(lk.StopStrings(["ab"], AB, include_prompt=True), [0], LOGITS, prompt=[3, 0, 99]) == LOGITS
    pads = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3], pad_id=2)
    assert after(lk.StopStrings(["a"], pads, include_prompt=True), [], LOGITS, prompt=[0, 3]) == ENDED
    assert after(lk.StopStrings([3], pads, include_prompt=True), [], LOGITS, prompt=[3]) == ENDED


def test_tokens_without_text_leave_the_text_as_it_is() -> None:
    special = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3])
    assert after(lk.StopStrings(["ab"], special), [0, 2, 1], LOGITS) == ENDED


def test_stops_by_id() -> None:
    special = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3])
    assert after(lk.StopStrings([2], special), [0, 2], LOGITS) == ENDED
    assert after(lk.StopStrings([1], special), [1], LOGITS) == ENDED
    # Spelled by another token it is another stop.
    assert after(lk.StopStrings([1], AB), [2], LOGITS) == LOGITS


def test_pad_after_eos_and_not_before() -> None:
    pads = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3], pad_id=2)
    stops = lk.StopStrings(["a"], pads)
    assert after(stops, [0], LOGITS) == ENDED
    assert after(stops, [0, 3], LOGITS) == [NEVER, NEVER, 2.0, 3.0]
    assert after(stops, [0, 3], [0.5, -1.0, 2.0, NEVER]) == [NEVER, NEVER, 2.0, NEVER]
    assert after(stops, [0], [0.5, -1.0, 2.0, NEVER]) == [NEVER, NEVER, NEVER, 0.0]
    assert after(stops, [0, 3], [0.5, -1.0, NEVER, NEVER]) == [NEVER, NEVER, NEVER, 0.0]
    assert after(stops, [1, 3], LOGITS) == [NEVER, NEVER, 2.0, 3.0]
    assert after(stops, [1, 3, 0], LOGITS) == [NEVER, NEVER, 2.0, 3.0]
    assert after(lk.StopStrings([3], pads), [1, 3], LOGITS) == [NEVER, NEVER, 2.0, 3.0]


def test_which_stop_and_where() -> None:
    stops = lk.StopStrings(["ba", "aab", 1], AB)
    assert asked(stops, [0, 0]) == (-1, -1, -1, -1)
    assert asked(stops, [0, 0, 2]) == (1, 1, 4, 2)
    assert asked(stops, [2, 0, 0]) == (0, 1, 3, 1)
    assert asked(stops, [0, 1, 0, 0, 2]) == (2, 1, 2, 1)


def test_of_stops_that_end_together_the_longest_wins() -> None:
    assert asked(lk.StopStrings(["b", "ab", "aab", "ab"], AB), [0, 0, 1]) == (2, 0, 3, 2)
    assert asked(lk.StopStrings(["ab", "ab"], AB), [2]) == (0, 0, 2, 0)
    assert asked(lk.StopStrings(["b", 2], AB), [2]) == (1, 0, 2, 0)
    assert asked(lk.StopStrings([2, "a"], AB), [2]) == (1, 0, 1, 0)
    assert asked(lk.StopStrings([1, "ab"], AB), [0, 1]) == (1, 0, 2, 1)


def test_the_place_counts_from_the_beginning_of_the_output() -> None:
    stops = lk.StopStrings(["aba"], AB, include_prompt=True)
    assert asked(stops, [0, 0], prompt=[1, 0, 1]) == (0, -2, 1, 0)
    assert asked(stops, [0], prompt=[2, 0, 0, 0]) == (0, -5, -2, -3)
    assert asked(stops, [1, 2, 0], prompt=[1]) == (0, 1, 4, 2)


def test_a_rewound_row_has_not_fired() -> None:
    stops = lk.StopStrings(["ab"], AB)
    before = begun(stops, [0])
    later = stops.advance(before, torch.tensor([1]))
    assert stops.fired(later).tolist() == [True]
    assert stops.fired(before).tolist() == [False]
    assert stops.fired(stops.advance(before, torch.tensor([0]))).tolist() == [False]


def test_a_fired_row_stays_so() -> None:
    stops = lk.StopStrings(["ab", "ba"], AB)
    assert asked(stops, [2, 0, 0, 1]) == asked(stops, [2]) == asked(stops, [2, 3, 1, 0])
    state = begun(stops, [2, 0])
    assert stops.is_finished(state).tolist() == [False]
    assert stops.is_finished(stops.advance(state, torch.tensor([3]))).tolist() == [True]


def test_a_stop_overrides_a_constraint() -> None:
    both = lk.chain(lk.Regex("a{3}", AB), lk.StopStrings(["aa"], AB))
    assert after(both, [0], LOGITS) == [0.5, NEVER, NEVER, NEVER]
    assert after(both, [0, 0], LOGITS) == [NEVER, NEVER, NEVER, 0.0]
    other = lk.chain(lk.StopStrings(["aa"], AB), lk.Regex("a{3}", AB))
    assert after(other, [0, 0], LOGITS) == [NEVER, NEVER, NEVER, 0.0]
    context = lk.Context.of([[]], 4)
    state = both.advance(both.init_state(context), torch.tensor([[0, 0]]))
    assert both.conflicts(state).tolist() == [False]


def test_a_table_over_tokens_is_made_only_for_tensors() -> None:
    fresh = lk.Vocabulary([b"a", b"b", b"abb", None], eos_ids=[3])
    stops = lk.StopStrings(["ab"], fresh)
    begun(stops, [0, 1])
    assert "table" not in stops.automaton.__dict__
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        begun(stops, [0, 1])
    assert "table" in stops.automaton.__dict__


def test_stops_that_are_gone_take_no_room_in_the_registry() -> None:
    """Though their tables over tokens were made after they came."""
    fresh = lk.Vocabulary([b"a", b"b", b"abb", b"bb", None], eos_ids=[4])
    registry, automaton = stop_registry(fresh), StopAutomaton((b"abab",), fresh, lk.Limits())
    handle = registry.register(cast(Any, automaton))
    taken = registry.nbytes()
    assert automaton.table.states > 0
    del handle
    assert taken > registry.nbytes() == 0


def test_rows_with_other_stops_share_a_batch() -> None:
    one, two = lk.StopStrings(["ab"], AB), lk.StopStrings(["bb", "ba"], AB)
    context = lk.Context.of([[]], 4)
    state = lk.concatenate([one.init_state(context), two.init_state(context)])
    state = one.advance(state, torch.tensor([[2, -1], [2, 0]]))
    assert one.which(state).tolist() == two.which(state).tolist() == [0, 1]
    assert one.place(state).begin.tolist() == [0, 1]


@pytest.mark.parametrize("tensors", [False, True], ids=["rows", "tensors"])
def test_a_negative_id_is_not_a_token(tensors: bool) -> None:
    """Labels of a training set have -100."""
    stops = lk.StopStrings(["ab"], AB)
    with mock.patch.object(torch.compiler, "is_compiling", return_value=tensors):
        state = begun(stops, [0])
        later = stops.advance(state, torch.tensor([[-100, -1]]))
    assert torch.equal(later.at.state, state.at.state)
    assert torch.equal(later.tokens, state.tokens)


def test_a_neutral_row_is_left_as_it_is() -> None:
    stops = lk.StopStrings(["a"], AB)
    state = begun(stops, [])
    state = state._replace(at=state.at._replace(slot=torch.zeros_like(state.at.slot)))
    for tensors in (False, True):
        with mock.patch.object(torch.compiler, "is_compiling", return_value=tensors):
            later = stops.advance(state, torch.tensor([[0, 3, 1]]))
            assert later == state or all(map(torch.equal, later[1:], state[1:]))
            logits = torch.tensor([[torch.inf, NEVER, -0.0, 2.0, 7.0]])
            out = stops.process_logits(later, logits.clone(), lk.Context.of([[]], 4))[1]
            assert torch.equal(out, logits)


def test_the_table_follows_the_bytes() -> None:
    """From all states, by all tokens."""
    stops = lk.StopStrings(["abcat", "a\n", b"\xa9\xc3", "cat", EOS, 20, "ab1"], vocabulary())
    automaton = stops.automaton
    for state in range(2, automaton.states):
        for token in range(vocabulary().size):
            assert automaton.next(state, token) == automaton.table.next(state, token), (state, token)
    assert automaton.next(2, PAD) == 2
