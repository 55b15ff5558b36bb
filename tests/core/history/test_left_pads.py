"""Left pads, which no prompt has."""

from __future__ import annotations

import pytest
import torch

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.tracking import rows as history_rows
from tests.core.history.hook import Hook, begun
from tests.core.ledger import rows_of


class TestLeftPads:
    def test_do_not_belong_to_the_prompt(self) -> None:
        for skip in (torch.tensor([0, 2]), lambda ids: (ids == 0).cumprod(1).sum(1)):
            hook = Hook(skip=skip)
            state, context = hook.resolve([[1, 2, 3], [0, 0, 4]])
            assert rows_of(state) == begun([1, 2, 3], [4])
            assert context.prompt.tolist() == [[1, 2, 3], [4, -1, -1]]
            assert (context.prompt_lengths.tolist(), context.lengths.tolist()) == ([3, 1], [3, 1])
            state, context = hook.resolve([[1, 2, 3, 0], [0, 0, 4, 0]])
            assert rows_of(state) == [([1, 2, 3], [0]), ([4], [0])]
            assert context.lengths.tolist() == [4, 2]

    def test_alone_are_an_empty_prompt(self) -> None:
        hook = Hook(skip=lambda ids: (ids == 0).cumprod(1).sum(1))
        state, context = hook.resolve([[0, 0], [0, 0]])
        assert rows_of(state) == begun([], [])
        assert context.prompt.shape == (2, 0)
        assert hook([0, 0, 0], [0, 0, 1]) == [([], [0]), ([], [1])]

    def test_of_another_number_are_another_prompt(self) -> None:
        hook = Hook(skip=lambda ids: (ids == 0).cumprod(1).sum(1))
        hook([0, 0, 4])
        assert hook([0, 4]) == begun([4])
        assert hook([0, 0, 0, 4]) == begun([4])

    def test_tell_rows_of_equal_ids_apart(self) -> None:
        hook = Hook(skip=torch.tensor([0, 1]))
        assert hook([7, 1], [7, 1], [7, 1], [7, 1]) == begun([7, 1], [7, 1], [1], [1])
        hook([7, 1, 2], [7, 1, 3], [7, 1, 3], [7, 1, 2])
        assert hook([7, 1, 3, 4], [7, 1, 3, 5], [7, 1, 3, 4], [7, 1, 2, 4]) == [
            ([7, 1], [3, 4]),
            ([7, 1], [3, 5]),
            ([1], [3, 4]),
            ([1], [2, 4]),
        ]
        assert hook.calls() == ["init", 1, 1]

    def test_tell_rows_apart_even_if_all_hashes_are_equal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(history_rows, "hashes_of", lambda rows, keys: [0] * len(rows))
        self.test_tell_rows_of_equal_ids_apart()

    def test_must_fit(self) -> None:
        with pytest.raises(ConfigurationError, match=r"row 1 has 2 ids, but skip says that 3"):
            Hook(skip=torch.tensor([0, 3]))([1, 2], [3, 4])
        with pytest.raises(BatchMismatch, match=r"shows 3 rows, but skip has 2"):
            Hook(skip=torch.tensor([0, 1]))([1, 2], [3, 4], [5, 6])
        with pytest.raises(BatchMismatch, match=r"skip returned 1 numbers for 2 rows"):
            Hook(skip=lambda ids: torch.tensor([0]))([1, 2], [3, 4])
        with pytest.raises(ConfigurationError, match=r"the result of skip is a torch.float32 tensor"):
            Hook(skip=lambda ids: torch.zeros(2))([1, 2], [3, 4])
