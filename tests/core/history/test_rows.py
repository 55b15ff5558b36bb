"""Rows that move, repeat, leave and take turns."""

from __future__ import annotations

import pytest

from logitkit.tracking import rows as history_rows
from tests.core.history.hook import Hook, begun
from tests.core.ledger import rows_of


class TestRows:
    def test_beams_follow_their_parents(self) -> None:
        hook = Hook()
        hook([9], [9], [9])
        hook([9, 1], [9, 2], [9, 3])
        hook.calls()
        assert hook([9, 3, 1], [9, 1, 1], [9, 1, 2]) == [([9], [3, 1]), ([9], [1, 1]), ([9], [1, 2])]
        assert hook.calls() == [1]
        assert hook([9, 1, 2, 5], [9, 3, 1, 5], [9, 1, 2, 6])[0] == ([9], [1, 2, 5])
        assert hook.calls() == [1]
        assert len(hook.resolver._histories.groups) == 1

    def test_of_equal_parents_that_of_the_same_index_is_continued(self) -> None:
        hook = Hook()
        hook([9], [9], [9], [9])
        hook([9, 1], [9, 2], [9, 1], [9, 2])
        state, _ = hook.resolve([[9, 2, 5], [9, 2, 6], [9, 1, 7], [9, 2, 8]])
        assert state.stream.tolist() == [1, 1, 2, 3]

    def test_more_rows_of_a_prompt_shown_before_have_streams_of_their_own(self) -> None:
        hook = Hook()
        hook([9])
        assert hook.resolve([[9], [9], [9]])[0].stream.tolist() == [0, 1, 2]

    def test_rows_of_different_prompts_may_be_dropped_and_repeated(self) -> None:
        hook = Hook()
        hook([1, 1], [2, 2])
        hook([1, 1, 5], [2, 2, 5])
        state, context = hook.resolve([[2, 2, 5, 6], [2, 2, 5, 7], [1, 1, 5, 8]])
        assert rows_of(state) == [([2, 2], [5, 6]), ([2, 2], [5, 7]), ([1, 1], [5, 8])]
        assert context.prompt.tolist() == [[2, 2], [2, 2], [1, 1]]
        state, context = hook.resolve([[1, 1, 5, 8, 9], [2, 2, 5, 6, 9], [2, 2, 5, 6, 8]])
        assert rows_of(state) == [([1, 1], [5, 8, 9]), ([2, 2], [5, 6, 9]), ([2, 2], [5, 6, 8])]
        assert context.prompt.tolist() == [[1, 1], [2, 2], [2, 2]]

    def test_sequences_that_take_turns_stay_apart(self) -> None:
        hook = Hook()
        hook([1])
        hook([1])
        hook([1, 2])
        hook([1, 3])
        hook([1, 2, 2])
        assert hook([1, 3, 2]) == [([1], [3, 2])]
        assert hook([1, 2, 2, 3]) == [([1], [2, 2, 3])]
        assert hook.calls() == ["init", 1, 1, 1, 1, 1]

    def test_as_many_sequences_as_the_capacity_take_turns(self) -> None:
        hook = Hook(capacity=64)
        histories = [[7, n] for n in range(64)]
        for token in range(5):
            for history in histories:
                assert hook(history) == [(history[:2], history[2:])]
                history.append(token)
        assert hook.calls().count("init") == 64

    def test_that_differ_in_one_old_token_only(self) -> None:
        tail = list(range(60))
        hook = Hook()
        hook([1, *tail], [2, *tail], [3, *tail])
        hook([1, *tail, 5], [2, *tail, 5], [3, *tail, 5])
        moved = hook([3, *tail, 5, 6], [3, *tail, 5, 6], [1, *tail, 5, 6])
        assert moved == [([first, *tail], [5, 6]) for first in (3, 3, 1)]
        assert hook([4, *tail, 5, 6, 7], [3, *tail, 5, 6, 7], [1, *tail, 5, 6, 7]) == begun(
            *([first, *tail, 5, 6, 7] for first in (4, 3, 1))
        )

    def test_with_equal_hashes_stay_apart(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(history_rows, "hashes_of", lambda rows, keys: [0] * len(rows))
        hook = Hook()
        hook([1, 1], [2, 2], [3, 3])
        hook([1, 1, 5], [2, 2, 5], [3, 3, 5])
        moved = hook([2, 2, 5, 6], [3, 3, 5, 6], [1, 1, 5, 6])
        assert moved == [([2, 2], [5, 6]), ([3, 3], [5, 6]), ([1, 1], [5, 6])]
        assert hook([2, 2, 5, 6, 7], [1, 1, 5, 6, 7]) == [([2, 2], [5, 6, 7]), ([1, 1], [5, 6, 7])]
        other = [4, 4, 5, 6, 7]
        assert hook([2, 2, 5, 6, 7], other, [1, 1, 5, 6, 7])[1] == (other, [])
