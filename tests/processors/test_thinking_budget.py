"""`ThinkingBudget`: after a given number of tokens the end of the section is forced, and nothing else ever is."""

from __future__ import annotations

from unittest import mock

import pytest
import torch

import logitkit as lk
from tests.processors.four_logits import AB, LOGITS, NEVER, begun
from tests.processors.four_logits import on_either_path as after


def test_nothing_changes_within_the_budget() -> None:
    budget = lk.ThinkingBudget(2, "abb", AB)
    for tokens in ([], [0], [2]):
        assert after(budget, tokens, LOGITS) == LOGITS
    assert after(budget, [0], [torch.inf, NEVER, -0.0, NEVER]) == [torch.inf, NEVER, -0.0, NEVER]


def test_the_end_is_forced_when_the_budget_is_spent() -> None:
    budget = lk.ThinkingBudget(2, "abb", AB)
    assert after(budget, [0, 0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(budget, [1, 1], LOGITS) == [0.5, NEVER, 2.0, NEVER]
    assert after(budget, [1, 1, 0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(budget, [1, 1, 2], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


def test_it_goes_on_from_what_has_been_said_of_the_end() -> None:
    assert after(lk.ThinkingBudget(2, "abb", AB), [0, 2], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(lk.ThinkingBudget(1, "aab", AB), [0], LOGITS) == [0.5, NEVER, 2.0, NEVER]
    assert after(lk.ThinkingBudget(1, "aab", AB), [0, 0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(lk.ThinkingBudget(3, "aab", AB), [0, 0, 0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


def test_no_token_runs_past_the_end() -> None:
    assert after(lk.ThinkingBudget(0, "a", AB), [], LOGITS) == [0.5, NEVER, NEVER, NEVER]
    # Until it is forced, one may.
    assert after(lk.ThinkingBudget(2, "a", AB), [2, 1, 1, 1], LOGITS) == LOGITS


def test_a_row_is_free_after_the_end() -> None:
    budget = lk.ThinkingBudget(1, "ab", AB)
    for tokens in ([2], [0, 1], [1, 2], [1, 0, 1], [1, 2, 0, 0, 0, 0], [0, 1, 1, 1, 1]):
        assert after(budget, tokens, LOGITS) == LOGITS


def test_a_budget_of_nothing_forces_at_once() -> None:
    assert after(lk.ThinkingBudget(0, "ba", AB), [], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(lk.ThinkingBudget(0, "ba", AB), [1, 0], LOGITS) == LOGITS


def test_an_end_by_id() -> None:
    special = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3])
    budget = lk.ThinkingBudget(1, 2, special)
    assert after(budget, [0], LOGITS) == [NEVER, NEVER, 2.0, NEVER]
    assert after(budget, [0, 2], LOGITS) == LOGITS
    assert after(budget, [2, 0, 0], LOGITS) == LOGITS
    # One that has text is that token alone, however the text is spelled.
    assert after(lk.ThinkingBudget(2, 2, AB), [0, 1], LOGITS) == [NEVER, NEVER, 2.0, NEVER]
    assert after(lk.ThinkingBudget(1, 2, AB), [2, 1, 1], LOGITS) == LOGITS


def test_ids_without_text_are_counted_and_not_forced() -> None:
    special = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3])
    budget = lk.ThinkingBudget(2, "ab", special)
    assert after(budget, [2], LOGITS) == LOGITS
    assert after(budget, [2, 2], LOGITS) == [0.5, NEVER, NEVER, NEVER]
    assert after(budget, [0, 2], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


def test_eos_ends_a_thought_within_the_budget() -> None:
    pads = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3], pad_id=2)
    budget = lk.ThinkingBudget(3, "ab", pads)
    assert after(budget, [1, 3], LOGITS) == [NEVER, NEVER, 2.0, 3.0]
    assert after(budget, [1, 3, 2, 2, 2], LOGITS) == [NEVER, NEVER, 2.0, 3.0]


def test_a_section_begins_with_its_start() -> None:
    budget = lk.ThinkingBudget(1, "bb", AB, start="aa")
    assert after(budget, [0, 1, 0, 1], LOGITS) == LOGITS
    assert after(budget, [0, 0], LOGITS) == LOGITS
    assert after(budget, [0, 0, 0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(budget, [0, 2], LOGITS) == LOGITS
    # The text after the start, within the same token, belongs to the section.
    assert after(budget, [0, 2, 1], LOGITS) == LOGITS
    assert after(budget, [0, 2, 0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


def test_each_section_has_the_whole_budget() -> None:
    budget = lk.ThinkingBudget(2, "b", AB, start=2)
    assert after(budget, [2, 0, 0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(budget, [2, 0, 0, 1, 0, 0, 0], LOGITS) == LOGITS
    assert after(budget, [2, 0, 0, 1, 2, 0], LOGITS) == LOGITS
    assert after(budget, [2, 0, 0, 1, 2, 0, 0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


def test_without_a_start_no_section_begins_again() -> None:
    assert after(lk.ThinkingBudget(1, "ab", AB), [2, 0, 0, 0, 0], LOGITS) == LOGITS


def test_the_prompt_may_have_begun_a_section() -> None:
    budget = lk.ThinkingBudget(1, "b", AB, start="aa")
    forced = [NEVER, -1.0, NEVER, NEVER]
    assert after(budget, [0], LOGITS, prompt=[0, 0]) == forced
    assert after(budget, [], LOGITS, prompt=[0, 0, 0, 0, 0]) == LOGITS
    assert after(budget, [0], LOGITS, prompt=[0, 0, 1]) == LOGITS
    assert after(budget, [0], LOGITS, prompt=[0, 0, 1, 0, 0]) == forced
    # EOS, and ids that the vocabulary lacks, are passed over.
    assert after(budget, [0], LOGITS, prompt=[3, 0, 3, 99, 0, 3]) == forced
    assert after(budget, [0, 0], LOGITS, prompt=[0]) == forced
    # Without a start, what the prompt says does not matter.
    assert after(lk.ThinkingBudget(1, "ab", AB), [1], LOGITS, prompt=[0]) == [0.5, NEVER, 2.0, NEVER]


def test_equal_markers_take_turns() -> None:
    budget = lk.ThinkingBudget(1, "b", AB, start="b")
    assert after(budget, [1], LOGITS) == LOGITS
    assert after(budget, [1, 0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(budget, [1, 0, 1, 0, 0], LOGITS) == LOGITS
    by_id = lk.ThinkingBudget(1, 1, AB, start=1)
    assert after(by_id, [1, 0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(by_id, [1, 0, 1, 0, 0], LOGITS) == LOGITS


def test_a_token_against_the_end_leaves_it_forced() -> None:
    budget = lk.ThinkingBudget(1, "aab", AB)
    assert after(budget, [0, 1], LOGITS) == [0.5, NEVER, NEVER, NEVER]


def test_a_row_that_another_processor_left_nothing_ends() -> None:
    budget = lk.ThinkingBudget(0, "b", AB)
    assert after(budget, [], [0.5, NEVER, 2.0, NEVER]) == [NEVER, NEVER, NEVER, 0.0]
    for both in (lk.chain(lk.Regex("a*", AB), budget), lk.chain(budget, lk.Regex("a*", AB))):
        assert after(both, [], LOGITS) == [NEVER, NEVER, NEVER, 0.0]
        state = both.init_state(lk.Context.of([[]], 4))
        assert both.conflicts(state).tolist() == [True]


def test_a_stop_overrides_a_budget() -> None:
    budget, stops = lk.ThinkingBudget(0, "aab", AB), lk.StopStrings(["aa"], AB)
    for both in (lk.chain(budget, stops), lk.chain(stops, budget)):
        assert after(both, [0], LOGITS) == [0.5, NEVER, 2.0, NEVER]
        assert after(both, [0, 0], LOGITS) == [NEVER, NEVER, NEVER, 0.0]


def test_what_can_be_asked() -> None:
    budget = lk.ThinkingBudget(1, "ab", AB, start="b")
    for tokens, thinking, forced in (
        ([], False, False),
        ([1], True, False),
        ([1, 0], True, True),
        ([1, 2], False, False),
    ):
        state = begun(budget, tokens)
        assert (budget.is_thinking(state).item(), budget.is_forced(state).item()) == (thinking, forced)


def test_rows_with_other_budgets_share_a_batch() -> None:
    one, two = lk.ThinkingBudget(1, "ab", AB), lk.ThinkingBudget(2, 1, AB, start="a")
    context = lk.Context.of([[]], 4)
    state = lk.concatenate([one.init_state(context), two.init_state(context)])
    state = one.advance(state, torch.tensor([[1, -1, -1], [0, 0, 0]]))
    out = two.process_logits(state, torch.tensor([LOGITS, LOGITS]), lk.concatenate_context([context, context]))[1]
    assert out.tolist() == [[0.5, NEVER, 2.0, NEVER], [NEVER, -1.0, NEVER, NEVER]]


@pytest.mark.parametrize("tensors", [False, True], ids=["rows", "tensors"])
def test_a_negative_id_is_not_a_token(tensors: bool) -> None:
    budget = lk.ThinkingBudget(3, "ab", AB)
    with mock.patch.object(torch.compiler, "is_compiling", return_value=tensors):
        state = begun(budget, [0])
        later = budget.advance(state, torch.tensor([[-100, -1]]))
    assert torch.equal(later.at.state, state.at.state)
    assert later.spent.tolist() == [1]


def test_a_neutral_row_is_left_as_it_is() -> None:
    budget = lk.ThinkingBudget(0, "a", AB)
    state = begun(budget, [])
    state = state._replace(at=state.at._replace(slot=torch.zeros_like(state.at.slot)), spent=torch.tensor([5]))
    for tensors in (False, True):
        with mock.patch.object(torch.compiler, "is_compiling", return_value=tensors):
            later = budget.advance(state, torch.tensor([[0, 3, 1]]))
            assert torch.equal(later.spent, state.spent)
            logits = torch.tensor([[torch.inf, NEVER, -0.0, 2.0, 7.0]])
            assert torch.equal(budget.process_logits(later, logits.clone(), lk.Context.of([[]], 4))[1], logits)
            assert not budget.is_thinking(later).item()
