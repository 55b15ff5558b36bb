"""`ThinkingBudget`: after so many tokens the end of the section is forced, and nothing else ever is."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, StaleAutomaton, StateFileError, VocabularyError
from logitkit.reasoning.thinking_state import ThinkingState
from tests.processors import four_logits
from tests.processors.four_logits import NEVER
from tests.registry import BOS, EOS, PAD, TOKENS, vocabulary

# Ids:                      0     1     2      3 = EOS
AB = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
LOGITS = [0.5, -1.0, 2.0, 3.0]


def after(
    processor: lk.Processor[Any], tokens: Sequence[int], logits: Sequence[float], prompt: Sequence[int] = ()
) -> list[float]:
    """Return what becomes of the logits, on either path."""
    by_rows = four_logits.after(processor, tokens, logits, prompt)
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        assert four_logits.after(processor, tokens, logits, prompt) == by_rows
    return by_rows


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
    # What follows the start within its token is of the section.
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


def begun(processor: lk.ThinkingBudget, tokens: Sequence[int], prompt: Sequence[int] = ()) -> ThinkingState:
    context = lk.Context.of([prompt], processor.vocabulary.size)
    return processor.advance(processor.init_state(context), torch.tensor([[*tokens, -1]]))


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


# The plain meaning, byte by byte.


def plain(
    limit: int, end: bytes | int, start: bytes | int | None, prompt: Sequence[int], output: Sequence[int]
) -> set[int] | None:
    """Return which ids are legal after the tokens; None for all."""
    inside, said, spent = start is None, b"", 0
    given = [(token, True) for token in (prompt if start is not None else ())] + [(token, False) for token in output]
    for token, of_prompt in given:
        if token == EOS:
            if not of_prompt:
                return {EOS, PAD}
            continue
        before = inside
        if token == (end if inside else start):
            inside, said = not inside, b""
        else:
            for byte in TOKENS[token] or b"":
                said += bytes([byte])
                marker = end if inside else start
                if isinstance(marker, bytes) and said.endswith(marker):
                    inside, said = not inside, b""
        spent = spent + 1 if before and inside and not of_prompt else 0
    if not inside or spent < limit:
        return None
    if isinstance(end, int):
        return {end}
    rest = end[max(k for k in range(len(end)) if said.endswith(end[:k])) :]
    # The vocabulary has every ASCII byte, so a token is legal unless it leaves half of "é".
    return {i for i, t in enumerate(TOKENS) if t and rest.startswith(t)}


_likely = [i for i, t in enumerate(TOKENS) if t in (b"a", b"b", b"c", b"ab", b"abc", b"\xc3", b"\xa9", b"a\xc3")]
_ids = st.integers(0, len(TOKENS) - 1) | st.sampled_from([*_likely, BOS]) | st.sampled_from(_likely)
_marker = st.sampled_from(["ab", "abab", "aab", "abcab", "é", "éa", "a", "aa", "-0\n", BOS, 13, "cat"])


@settings(max_examples=150)
@given(st.integers(0, 4), _marker, st.none() | _marker, st.lists(_ids, max_size=8), st.lists(_ids, max_size=12))
def test_against_the_plain_meaning(
    limit: int, end: str | int, start: str | int | None, prompt: list[int], output: list[int]
) -> None:
    budget = lk.ThinkingBudget(limit, end, vocabulary(), start)
    raw_end, raw_start = (m.encode() if isinstance(m, str) else m for m in (end, start))
    assert raw_end is not None
    for n in range(len(output) + 1):
        legal = plain(limit, raw_end, raw_start, prompt, output[:n])
        given_ = [0.5] * 72
        found = after(budget, output[:n], given_, prompt)
        wanted = given_ if legal is None else [0.5 if i in legal else NEVER for i in range(72)]
        assert found == wanted


@settings(max_examples=20)
@given(st.data())
def test_a_forced_end_in_a_real_vocabulary(tekken: lk.Vocabulary, data: st.DataObject) -> None:
    """Whatever legal tokens are taken, the thought ends with the marker, and with nothing behind it."""
    budget = lk.ThinkingBudget(3, "</think>\n\n", tekken)
    thought = data.draw(st.lists(st.integers(1000, 50_000), min_size=3, max_size=3))
    if data.draw(st.booleans()):
        thought[-1] = tekken.tokens.index(b"</")
    context = lk.Context.of([[]], tekken.size)
    state = budget.advance(budget.init_state(context), torch.tensor([thought]))
    forced: list[int] = []
    while budget.is_forced(state).item():
        legal = budget.process_logits(state, torch.zeros(1, tekken.size), context)[1][0].isfinite().nonzero()[:, 0]
        forced.append(data.draw(st.sampled_from(legal.tolist())))
        state = budget.advance(state, torch.tensor(forced[-1:]))
    assert tekken.decode([*thought, *forced]).endswith(b"</think>\n\n")
    assert len(tekken.decode(forced)) <= len(b"</think>\n\n")
    logits = torch.randn(1, tekken.size)
    assert torch.equal(budget.process_logits(state, logits.clone(), context)[1], logits)


def test_rows_with_other_budgets_share_a_batch() -> None:
    one, two = lk.ThinkingBudget(1, "ab", AB), lk.ThinkingBudget(2, 1, AB, start="a")
    context = lk.Context.of([[]], 4)
    state = lk.concatenate([one.init_state(context), two.init_state(context)])
    state = one.advance(state, torch.tensor([[1, -1, -1], [0, 0, 0]]))
    out = two.process_logits(state, torch.tensor([LOGITS, LOGITS]), lk.concatenate_context([context, context]))[1]
    assert out.tolist() == [[0.5, NEVER, 2.0, NEVER], [NEVER, -1.0, NEVER, NEVER]]


@pytest.mark.parametrize("tensors", [False, True], ids=["rows", "tensors"])
def test_whatever_is_below_0_is_no_token(tensors: bool) -> None:
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
    with pytest.raises(ConfigurationError, match="end is the EOS id 3, which ends the text and no section"):
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
    # What no tokens lead to does no harm.
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
    other.lease()
    with pytest.raises(StaleAutomaton, match="no longer in the bank"):
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
        lk.save_state(tmp_path / "state", state._replace(**{field: torch.tensor([value])}), budget)  # type: ignore[arg-type]
        if (field, value) == ("inside", 1):
            # Too few are as good as another budget's: they lead nowhere that is not there.
            lk.load_state(tmp_path / "state", budget)
            continue
        with pytest.raises(StateFileError, match=r"below 0|states of a section"):
            lk.load_state(tmp_path / "state", budget)
