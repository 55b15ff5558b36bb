"""The options of `ThinkingBudget`, by hand: several ends, a message, a grace, a minimum of tokens, pauses and deadlines."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch

import logitkit as lk
from logitkit.errors import BatchMismatch, ConfigurationError

PIECES: list[str | bytes] = [
    "a",
    "b",
    "ab",
    ".",
    "\n",
    "<",
    ">",
    "a<",
    ">b",
    "[",
    "]",
    "]<",
    b"\xc3",
    b"\xa9",
    b"\xa9.",
    "é",
]
BYTES: list[bytes | None] = [piece if isinstance(piece, bytes) else piece.encode() for piece in PIECES]
TOKEN, END = len(PIECES), len(PIECES) + 1
V = lk.Vocabulary([*BYTES, None, None], eos_ids=[END], special={"<t>": TOKEN})
CONTEXT = lk.Context.of([[]], V.size)


def ids(*pieces: str | bytes | int) -> list[int]:
    return [piece if isinstance(piece, int) else PIECES.index(piece) for piece in pieces]


def after(budget: lk.ThinkingBudget, *pieces: str | bytes | int) -> Any:
    """Return the state after some tokens."""
    state = budget.init_state(CONTEXT)
    return budget.advance(state, torch.tensor([ids(*pieces)])) if pieces else state


def legal(budget: lk.ThinkingBudget, *pieces: str | bytes | int, state: Any = None) -> list[str | bytes | int] | None:
    """Return the legal tokens after some tokens, by rows and by tensors alone; None for all."""
    found = []
    for tensors in (False, True):
        with mock.patch.object(torch.compiler, "is_compiling", return_value=tensors):
            now = after(budget, *pieces) if state is None else state
            logits = budget.process_logits(now, torch.zeros(1, V.size), CONTEXT)[1][0]
            found.append((logits == 0).nonzero()[:, 0].tolist())
    assert found[0] == found[1]
    return None if len(found[0]) == V.size else [(*PIECES, TOKEN, END)[i] for i in found[0]]


def without(*pieces: str | bytes | int) -> list[str | bytes | int]:
    """Return all tokens but some."""
    return [piece for piece in (*PIECES, TOKEN, END) if piece not in pieces]


class TestSeveralEnds:
    def test_any_ends_the_section_and_the_first_is_forced(self) -> None:
        budget = lk.ThinkingBudget(2, ["ab", "]", "<t>"], V)
        assert legal(budget, "b", "b") == ["a", "ab"]
        for end in (["a", "b"], ["ab"], ["]"], ["]<"], [TOKEN]):
            assert legal(budget, *end, "b", "b", "b") is None
        # A part of another marker is not continued.
        assert legal(lk.ThinkingBudget(1, ["]", "ab"], V), "a") == ["]"]

    def test_one_that_never_comes_because_another_one_does(self) -> None:
        # The second marker begins with the first one. So only the pause is left to be recognised by its number.
        budget = lk.ThinkingBudget(1, ["<", "<<t>a"], V, pause=[("a", "b")])
        assert legal(budget, "<", TOKEN, "a") is None
        assert budget.is_paused(after(budget, "a")).item()

    def test_one_in_a_list_is_one(self) -> None:
        one, listed = lk.ThinkingBudget(2, "ab", V), lk.ThinkingBudget(2, ["ab"], V)
        assert one == listed
        assert one.automaton is listed.automaton

    def test_a_marker_by_its_id_spells_no_other_text(self) -> None:
        # After `a`, only the token `<` could complete the first marker, and it is a marker itself.
        with pytest.raises(lk.errors.VocabularyError, match="cannot spell b'<', which completes the end marker b'a<'"):
            lk.ThinkingBudget(1, ["a<", ids("<")[0]], V)


class TestMessage:
    def test_it_is_forced_before_the_marker(self) -> None:
        budget = lk.ThinkingBudget(1, "<t>", V, message="ab.")
        assert legal(budget, "b") == ["a", "ab"]
        assert legal(budget, "b", "a") == ["b"]
        assert legal(budget, "b", "ab") == ["."]
        assert legal(budget, "b", "ab", ".") == [TOKEN]
        assert legal(budget, "b", "ab", ".", TOKEN) is None

    def test_no_token_runs_past_the_marker_or_leaves_the_text(self) -> None:
        # `a<` would spell the end of the message and the beginning of the marker, `>b` more than the marker.
        budget = lk.ThinkingBudget(0, "<>", V, message="a")
        assert legal(budget) == ["a", "a<"]
        assert legal(budget, "a<") == [">"]

    def test_a_beginning_that_is_there_is_continued(self) -> None:
        budget = lk.ThinkingBudget(2, "]", V, message="ab.")
        assert legal(budget, "b", "a") == ["b"]
        assert legal(budget, "a", "b") == ["."]
        # A beginning of the marker is not one of the forced text.
        assert legal(lk.ThinkingBudget(1, "<>", V, message="b"), "<") == ["b"]

    def test_a_character_is_completed_first(self) -> None:
        budget = lk.ThinkingBudget(1, "]", V, message="b")
        assert legal(budget, b"\xc3") == [b"\xa9"]
        assert legal(budget, b"\xc3", b"\xa9") == ["b"]
        assert legal(budget, "é") == ["b"]
        # A token may complete it and begin the message.
        assert legal(lk.ThinkingBudget(1, "]", V, message="."), b"\xc3") == [b"\xa9", b"\xa9."]
        # If the message goes on with the same bytes, it is the message.
        assert legal(lk.ThinkingBudget(1, "]", V, message="é."), b"\xc3") == [b"\xa9", b"\xa9."]
        # A marker alone still comes at once, as it always did.
        assert legal(lk.ThinkingBudget(1, "]", V), b"\xc3") == ["]"]

    def test_an_illegal_token_counts_by_its_text(self) -> None:
        budget = lk.ThinkingBudget(1, "]", V, message="ab.")
        assert legal(budget, "b", "a", "<") == ["a", "ab"]
        assert legal(budget, "b", "a", "]") is None


class TestGrace:
    def test_the_end_is_forced_where_a_sentence_ends(self) -> None:
        budget = lk.ThinkingBudget(2, "]", V, grace=3)
        assert legal(budget, "a", "b") is None
        assert legal(budget, "a", "b", ".") == ["]"]
        assert legal(budget, "a", "b", "\n") == ["]"]
        # The text does not end with it any more while the rest of a longer marker is written.
        longer = lk.ThinkingBudget(2, "b]", V, grace=3)
        assert legal(longer, "a", "b", ".", "b") == ["]"]
        # At the end of the budget itself, and before it.
        assert legal(budget, "a", ".") == ["]"]
        assert legal(budget, ".", "a") is None
        assert legal(budget, ".") is None

    def test_it_has_an_end(self) -> None:
        budget = lk.ThinkingBudget(2, "]", V, grace=3)
        assert legal(budget, "a", "a", "a", "a") is None
        assert legal(budget, "a", "a", "a", "a", "a") == ["]"]

    def test_a_sentence_that_ends_in_the_prompt_does_not_end_it(self) -> None:
        budget = lk.ThinkingBudget(0, "]", V, start="<", grace=2)
        context = lk.Context.of([ids("<", "a", ".", "a"), ids("<", "a", ".")], V.size)
        state = budget.init_state(context)
        # But one at the end of the prompt does: there is nothing to finish.
        assert budget.is_forced(state).tolist() == [False, True]
        assert state.closed_at.tolist() == [2**31 - 1] * 2

    def test_a_marker_and_eos_are_legal_in_it(self) -> None:
        budget = lk.ThinkingBudget(1, "]", V, grace=3)
        assert legal(budget, "a", "a", "]", "a", "a", "a", "a") is None
        assert legal(budget, "a", "a", END) == [END]
        assert not budget.is_dead(after(budget, "a", "a", END)).item()
        assert budget.is_dead(after(budget, "a", "a", ".", END)).item()

    def test_other_texts(self) -> None:
        budget = lk.ThinkingBudget(1, "]", V, grace=3, grace_at=["b<"])
        assert legal(budget, "a", ".", "b") is None
        assert legal(budget, "a", "b", "<") == ["]"]

    def test_a_text_that_ends_within_a_token_does_not_end_it(self) -> None:
        assert legal(lk.ThinkingBudget(1, "]", V, grace=3, grace_at=["a"]), "b", "a<") is None


class TestMinTokens:
    def test_no_token_completes_a_marker(self) -> None:
        budget = lk.ThinkingBudget(3, ["<t>", "]"], V, min_tokens=2)
        for pieces in ([], ["a"]):
            assert legal(budget, *pieces) == without("]", "]<", TOKEN)
        assert legal(budget, "a", "a") is None
        assert legal(budget, "a", "a", "a") == [TOKEN]

    def test_with_a_grace_a_marker_is_legal_from_the_minimum_on(self) -> None:
        budget = lk.ThinkingBudget(2, "]", V, min_tokens=2, grace=2)
        assert legal(budget, "a") == without("]", "]<")
        assert legal(budget, "a", "a") is None
        assert legal(budget, "a", "a", "a") is None
        assert legal(budget, "a", "a", "a", "a") == ["]"]

    def test_a_part_that_is_there_counts(self) -> None:
        budget = lk.ThinkingBudget(3, "<>", V, min_tokens=2)
        assert legal(budget, "<") == without(">", ">b")
        assert legal(budget, "a<") == without(">", ">b")
        assert legal(budget, "a", "<") is None

    def test_each_section_has_it(self) -> None:
        budget = lk.ThinkingBudget(3, "]", V, start="b", min_tokens=1)
        assert legal(budget) is None
        assert legal(budget, "b") == without("]", "]<")
        assert legal(budget, "b", "a") is None
        assert legal(budget, "b", "a", "]", "b") == without("]", "]<")

    def test_a_token_that_is_not_legal_ends_the_section_anyway(self) -> None:
        assert legal(lk.ThinkingBudget(3, "]", V, min_tokens=2), "]", "a") is None


class TestPause:
    def test_nothing_is_forced_in_it(self) -> None:
        budget = lk.ThinkingBudget(1, "]", V, pause=[("<", ">")])
        assert legal(budget, "<", "a", "a", "a") is None
        assert budget.is_paused(after(budget, "<", "a")).item()
        assert legal(budget, "<", "a", "a", ">", "a") == ["]"]

    def test_only_tokens_outside_of_it_count(self) -> None:
        budget = lk.ThinkingBudget(2, "]", V, pause=[("<", ">")])
        spent = [after(budget, *["a", "<", "b", "b", ">", "a"][:n]).spent.item() for n in range(7)]
        assert spent == [0, 1, 1, 1, 1, 1, 2]
        # With a token that begins or ends one, the same: it counts if the row is not in a pause before and after it.
        assert after(budget, "a<").spent.item() == 0
        assert after(budget, "<", ">b").spent.item() == 0

    def test_an_end_marker_ends_the_section_in_it(self) -> None:
        budget = lk.ThinkingBudget(1, "]", V, start="b", pause=[("<", ">")])
        assert not budget.is_thinking(after(budget, "b", "<", "]")).item()
        # So the minimum holds there too.
        held = lk.ThinkingBudget(3, "]", V, min_tokens=1, pause=[("<", ">")])
        assert legal(held, "<", "a") == without("]", "]<")

    def test_a_budget_that_is_spent_before_it_begins(self) -> None:
        budget = lk.ThinkingBudget(1, "]", V, pause=[("<.", ">")], grace=2, grace_at=["\n"])
        assert legal(budget, "a", "<", ".", "b", "b") is None
        assert legal(budget, "a", "<", ".", "b", "b", ">") is None  # one of the two tokens of grace is left
        assert legal(budget, "a", "<", ".", "b", "b", ">", "b") == ["]"]

    def test_by_token(self) -> None:
        budget = lk.ThinkingBudget(1, "]", V, pause=[("<t>", ids(">")[0])])
        assert legal(budget, TOKEN, "a", "a") is None
        assert legal(budget, TOKEN, "a", ">", "a") == ["]"]

    def test_several(self) -> None:
        budget = lk.ThinkingBudget(1, "]", V, pause=[("<", ">"), ("<t>", "b")])
        # The end of another pause is ordinary text.
        assert budget.is_paused(after(budget, "<", "b")).item()
        assert budget.is_paused(after(budget, TOKEN, ">")).item()
        assert not budget.is_paused(after(budget, TOKEN, "b")).item()


class TestClose:
    def test_it_forces_the_end_now(self) -> None:
        budget = lk.ThinkingBudget(99, "b]", V, message=".", grace=9, min_tokens=5)
        state = budget.close(after(budget, "a"), [True])
        assert legal(budget, state=state) == ["."]
        state = budget.advance(state, torch.tensor(ids(".")))
        assert legal(budget, state=state) == ["b"]
        state = budget.advance(state, torch.tensor([ids("b", "]")]))
        assert legal(budget, state=state) is None
        assert state.closed_at.tolist() == [2**31 - 1]

    def test_other_rows_and_earlier_states_stay_open(self) -> None:
        budget = lk.ThinkingBudget(9, "]", V)
        before = lk.select(after(budget, "a"), torch.tensor([0, 0]))
        state = budget.close(before, torch.tensor([False, True]))
        assert budget.is_forced(state).tolist() == [False, True]
        assert budget.is_forced(before).tolist() == [False, False]
        # A beam keeps what its row had.
        assert budget.is_forced(lk.select(state, torch.tensor([1, 1, 0]))).tolist() == [True, True, False]
        assert state.closed_at.tolist() == [2**31 - 1, 1]

    def test_a_row_in_a_pause_ends_after_it(self) -> None:
        budget = lk.ThinkingBudget(9, "]", V, pause=[("<", ">")])
        state = budget.close(after(budget, "a", "<", "b"), [True])
        assert legal(budget, state=state) is None
        assert legal(budget, state=budget.advance(state, torch.tensor(ids(">")))) == ["]"]

    def test_a_row_outside_of_sections_does_not_change(self) -> None:
        budget = lk.ThinkingBudget(2, "]", V, start="<")
        state = budget.close(after(budget, "a"), [True])
        state = budget.advance(state, torch.tensor(ids("<")))
        assert legal(budget, state=state) is None

    def test_a_row_that_ends_then_has_been_cut(self) -> None:
        budget = lk.ThinkingBudget(9, "]", V)
        state = budget.advance(budget.close(after(budget), [True]), torch.tensor([END]))
        assert budget.is_dead(state).tolist() == [True]
        assert legal(budget, state=state) == [END]

    def test_what_is_not_a_state_is_refused(self) -> None:
        from logitkit_adapters.transformers import logits_processor

        budget = lk.ThinkingBudget(9, "]", V)
        both = lk.chain(lk.Temperature(2.0), budget)
        with pytest.raises(ConfigurationError, match=r"state is a tuple.*give the part that belongs to the budget"):
            budget.close(both.init_state(CONTEXT), [True])  # type: ignore[arg-type]
        with pytest.raises(
            ConfigurationError, match="Hooks compute states from tokens, so nothing can be closed in one"
        ):
            budget.close(logits_processor(budget), [True])  # type: ignore[arg-type]
        with pytest.raises(
            ConfigurationError, match="the state of a hook cannot be set, because it is computed from the tokens"
        ):
            logits_processor(budget).state = budget.close(after(budget), [True])
        with pytest.raises(BatchMismatch, match=r"rows has the shape \(2,\), but the state has 1 rows"):
            budget.close(after(budget), [True, False])
