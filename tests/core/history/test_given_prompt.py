"""Prompts that the caller gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from logitkit.errors import BatchMismatch, ConfigurationError
from tests.core.history.hook import Hook, begun
from tests.core.ledger import rows_of


class TestGivenPrompt:
    def test_continues_however_much_longer(self) -> None:
        hook = Hook(prompt=torch.tensor([[1, 2]]))
        assert hook([1, 2, 3, 4, 5]) == [([1, 2], [3, 4, 5])]
        assert hook([1, 2, 3, 4, 5, 6, 7]) == [([1, 2], [3, 4, 5, 6, 7])]
        assert hook([1, 2]) == begun([1, 2])
        assert hook([1, 2, 9, 9, 9, 9]) == [([1, 2], [9, 9, 9, 9])]
        assert hook.calls() == ["init", 3, 2, "init", 4]

    def test_of_several_lengths(self) -> None:
        prompt = torch.tensor([[1, 2, 3], [4, -1, -1]])
        state, context = Hook(prompt=prompt).resolve([[1, 2, 3, 5], [4, 6, 7, 8]])
        assert rows_of(state) == [([1, 2, 3], [5]), ([4], [6, 7, 8])]
        assert context.prompt.tolist() == prompt.tolist()
        assert (context.prompt_lengths.tolist(), context.lengths.tolist()) == ([3, 1], [4, 4])

    def test_tells_rows_of_equal_ids_apart(self) -> None:
        """One prompt is the other and what was said after it: every row keeps to its own."""
        hook = Hook(prompt=torch.tensor([[1, -1], [1, 2]]))
        assert hook([1, 2], [1, 2], [1, 2], [1, 2]) == [([1], [2])] * 2 + [([1, 2], [])] * 2
        hook([1, 2, 3], [1, 2, 4], [1, 2, 4], [1, 2, 3])
        moved = hook([1, 2, 4, 5], [1, 2, 3, 5], [1, 2, 3, 5], [1, 2, 3, 6])
        assert moved == [([1], [2, 4, 5]), ([1], [2, 3, 5]), ([1, 2], [3, 5]), ([1, 2], [3, 6])]
        assert hook.calls() == ["init", 1, 1, 1]

    def test_after_left_padding(self) -> None:
        hook = Hook(prompt=torch.tensor([[1, 2], [3, -1]]), skip=torch.tensor([0, 1]))
        assert hook([1, 2, 5], [0, 3, 5]) == [([1, 2], [5]), ([3], [5])]

    def test_must_be_what_the_engine_shows(self) -> None:
        hook = Hook(prompt=torch.tensor([[1, 2], [3, 4]]), skip=torch.tensor([1, 0]))
        with pytest.raises(ConfigurationError, match=r"row 0 .* at position 2 it has id 9, the prompt has 2"):
            hook([0, 1, 9], [3, 4, 9])
        with pytest.raises(ConfigurationError, match=r"row 0 has 1 ids after 1 padding ids, but its prompt has 2"):
            hook([0, 1], [3, 4])
        with pytest.raises(BatchMismatch, match=r"shows 3 rows, but (skip|prompt) has 2"):
            hook([0, 1, 2], [3, 4, 9], [3, 4, 9])
        assert hook([0, 1, 2], [3, 4, 9]) == [([1, 2], []), ([3, 4], [9])]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"prompt": torch.tensor([1, 2])}, r"prompt is a torch.int64 tensor of shape \[2\]"),
            ({"prompt": [[1, 2]]}, r"prompt is of type list"),
            ({"prompt": torch.tensor([[1.0]])}, r"prompt is a torch.float32 tensor"),
            ({"prompt": torch.zeros(0, 3, dtype=torch.int64)}, r"prompt has no rows"),
            ({"prompt": torch.tensor([[-1, 2]])}, r"on the right only"),
            ({"skip": torch.tensor([-1])}, r"skip is \[-1\]"),
            ({"skip": 3}, r"skip is of type int"),
            ({"capacity": 0}, r"capacity is 0"),
        ],
    )
    def test_and_other_arguments_are_checked(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            Hook(**arguments)
