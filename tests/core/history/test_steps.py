"""One token more, the same again, and drafts."""

from __future__ import annotations

import torch

from tests.core.history.hook import Hook, begun
from tests.core.ledger import rows_of


class TestOneTokenMore:
    def test_is_one_advance_by_one_token(self) -> None:
        hook = Hook()
        history = [[1, 2], [3, 4]]
        hook(*history)
        assert hook.calls() == ["init"]
        for token in range(60):
            history = [[*row, token] for row in history]
            hook(*history)
            assert hook.calls() == [1]

    def test_shares_the_prompt_between_contexts(self) -> None:
        hook = Hook()
        first, second = (hook.resolve(rows)[1] for rows in ([[1, 2]], [[1, 2, 3]]))
        assert first.prompt is second.prompt
        assert (first.lengths.tolist(), second.lengths.tolist()) == ([2], [3])

    def test_appends_a_column_and_copies_nothing_else(self) -> None:
        hook = Hook()
        history = torch.arange(40)[None].repeat(3, 1)
        hook.resolve(history)
        buffers = set()
        for token in range(100):
            history = torch.cat((history, torch.full((3, 1), token)), 1)
            hook.resolve(history)
            buffers.add(hook.resolver._histories.groups[0].rows.tokens.data_ptr())
        assert len(buffers) <= 2
        assert hook.resolver._histories.groups[0].rows.tokens.shape[1] <= 2 * history.shape[1]

    def test_of_an_empty_prompt(self) -> None:
        hook = Hook()
        assert hook([], []) == begun([], [])
        assert hook([1], [2]) == [([], [1]), ([], [2])]
        assert hook([2, 3], [1, 3]) == [([], [2, 3]), ([], [1, 3])]
        assert hook.calls() == ["init", 1, 1]


class TestAgain:
    def test_a_repeated_call_costs_nothing(self) -> None:
        hook = Hook()
        hook([1])
        hook([1, 2])
        hook.calls()
        assert hook([1, 2]) == [([1], [2])]
        assert hook([1]) == [([1], [])]
        assert hook.calls() == []

    def test_a_rejected_draft_is_taken_back_without_a_replay_from_the_prompt(self) -> None:
        hook = Hook()
        history = list(range(30))
        hook(history)
        for token in range(50):
            history.append(token)
            hook(history)
        hook.calls()
        for rejected in range(1, 21):
            for n in range(rejected + 1):
                hook([*history, *[3] * n])
            drafted = hook.calls()
            assert drafted == [1] * len(drafted)
            for n in range(rejected):
                assert hook([*history, *[3] * n]) == [(history[:30], history[30:] + [3] * n)]
            history += [*[3] * (rejected - 1), 4]
            assert hook(history) == [(history[:30], history[30:])]
            replayed = hook.calls()
            assert all(type(call) is int and call < 8 for call in replayed)
            assert len(replayed) <= rejected + 1

    def test_rewound_far_it_is_one_advance_from_the_prompt(self) -> None:
        hook = Hook()
        for n in range(151):
            hook([7, *[1] * n])
        hook.calls()
        assert hook([7, *[1] * 50]) == [([7], [1] * 50)]
        assert hook.calls() == [50]

    def test_what_a_draft_left_stays_alive(self) -> None:
        hook = Hook()
        for history in ([1], [1, 2], [1, 2, 3], [1, 2, 4], [1, 2, 4, 5]):
            hook(history)
        assert hook([1, 2, 3, 6]) == [([1], [2, 3, 6])]
        assert hook([1, 2, 4, 5, 6]) == [([1], [2, 4, 5, 6])]
        assert "init" not in hook.calls()[1:]

    def test_an_assistant_of_another_size_skips_the_token_that_the_target_added(self) -> None:
        hook = Hook()
        for history in ([1], [1, 2], [1, 2, 3]):
            hook.resolve([history], columns=64)
        for history in ([1], [1, 2], [1, 2, 3], [1, 2, 3, 4]):
            hook.resolve([history], columns=50)
        state, context = hook.resolve([[1, 2, 3, 4]], columns=64)
        assert rows_of(state) == [([1], [2, 3, 4])]
        assert context.vocabulary_size == 64

    def test_a_draft_of_one_model_does_not_reach_the_states_of_another(self) -> None:
        hook = Hook()
        for history in ([1], [1, 2], [1, 2, 3], [1, 2, 3, 3]):
            hook.resolve([history], columns=64)
        for history in ([1], [1, 2], [1, 2, 4], [1, 2, 4, 4]):
            hook.resolve([history], columns=50)
        assert rows_of(hook.resolve([[1, 2, 4, 4]], columns=64)[0]) == [([1], [2, 4, 4])]
        assert rows_of(hook.resolve([[1, 2, 3, 3]], columns=50)[0]) == [([1], [2, 3, 3])]
