"""Which tokens count as the prompt of a new generation."""

from __future__ import annotations

import pytest
import torch

from tests.core.history.hook import Hook, begun


class TestNewGeneration:
    @pytest.mark.parametrize(
        "prompt",
        [[5, 6, 7, 8, 1, 2], [5, 6], [5], [5, 6, 9], [9, 9, 9, 9], [5, 6, 9, 8]],
        ids=["longer by two", "shorter", "much shorter", "other end", "unrelated", "other within the prompt"],
    )
    def test_is_every_other_history(self, prompt: list[int]) -> None:
        hook = Hook()
        hook([5, 6, 7])
        hook([5, 6, 7, 8])
        assert hook(prompt) == begun(prompt)
        assert hook([*prompt, 3]) == [(prompt, [3])]
        assert hook([5, 6, 7, 8, 4]) == [([5, 6, 7], [8, 4])]

    def test_takes_all_rows_when_one_is_new(self) -> None:
        hook = Hook()
        hook([1, 1], [2, 2])
        hook([1, 1, 5], [2, 2, 5])
        assert hook([1, 1, 5, 6], [3, 3, 5, 6]) == begun([1, 1, 5, 6], [3, 3, 5, 6])

    def test_is_not_recognised_when_it_is_the_last_history_and_one_token(self) -> None:
        """The one case that ids do not tell: a continuation, unless the caller says otherwise."""
        chat, turn = [1, 2, 3], [1, 2, 3, 4]
        hook = Hook()
        hook([1, 2])
        hook(chat)
        assert hook(turn) == [([1, 2], [3, 4])]

        told = Hook()
        told([1, 2])
        told(chat)
        told.resolver.new_generation()
        assert told(turn) == begun(turn)
        assert told([*turn, 5]) == [(turn, [5])]

        given = Hook(prompt=torch.tensor([turn]))
        assert given(turn) == begun(turn)

    def test_forgets_everything(self) -> None:
        hook = Hook()
        hook([1])
        hook([1, 2])
        hook.resolver.new_generation()
        assert hook([1, 2]) == begun([1, 2])
        assert hook([1, 2, 3]) == [([1, 2], [3])]
