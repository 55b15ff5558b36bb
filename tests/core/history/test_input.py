"""Ids that are refused, ids that change later, and processors that fail."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.tracking import Tracker
from tests.core.history.hook import Hook, Rows
from tests.core.ledger import Ledger


class TestInput:
    @pytest.mark.parametrize(
        ("ids", "message"),
        [
            (torch.tensor([1, 2]), r"of shape \[2\]"),
            (torch.tensor([[1.0]]), r"torch.float32"),
            (torch.tensor([[True]]), r"torch.bool"),
            (torch.zeros(0, 2, dtype=torch.int64), r"of shape \[0, 2\]"),
            ([[1]], r"ids is of type list"),
        ],
    )
    def test_of_another_kind_is_refused(self, ids: Any, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            Tracker(Ledger()).resolve(ids, vocabulary_size=9)

    def test_with_negative_ids_is_refused(self) -> None:
        hook = Hook()
        with pytest.raises(ConfigurationError, match=r"row 1 has the id -1 at position 0"):
            hook([1, 2], [-1, 2])
        hook([1], [2])
        with pytest.raises(ConfigurationError, match=r"row 0 has the id -5 at position 1"):
            hook([1, -5], [2, 3])
        assert hook([1, 5], [2, 3]) == [([1], [5]), ([2], [3])]

    def test_may_be_overwritten_afterwards(self) -> None:
        """Even by a processor that keeps the tokens it is given, nothing of the caller's buffer is kept."""

        class Last(NamedTuple):
            token: Tensor

        class Keeper:
            def init_state(self, context: lk.Context) -> Last:
                return Last(torch.full((context.batch_size,), -1))

            def advance(self, state: Last, tokens: Tensor) -> Last:
                return Last(tokens)

            def process_logits(self, state: Last, logits: Tensor, context: lk.Context) -> tuple[Last, Tensor]:
                return state, logits

        keeper = Tracker(Keeper())
        buffer = torch.tensor([[1, 2, 3], [4, 5, 6]])
        _, context = keeper.resolve(buffer[:, :1], vocabulary_size=9)
        second, _ = keeper.resolve(buffer[:, :2], vocabulary_size=9)
        third, _ = keeper.resolve(buffer, vocabulary_size=9)
        again, _ = keeper.resolve(buffer[:, :2], vocabulary_size=9)
        buffer.zero_()
        assert context.prompt.tolist() == [[1], [4]]
        assert [s.token.tolist() for s in (second, third, again)] == [[2, 5], [3, 6], [2, 5]]

    def test_may_come_from_inference_mode(self) -> None:
        hook = Hook()
        with torch.inference_mode():
            hook([1], [1])
            hook([1, 2], [1, 3])
        assert hook([1, 3, 4], [1, 3, 5]) == [([1], [3, 4]), ([1], [3, 5])]

    def test_passes_the_longest_length_on(self) -> None:
        assert Hook(max_length=77).resolve([[1]])[1].max_length == 77


@pytest.mark.parametrize(
    "rows",
    [
        [[1, 1, 5, 13], [2, 2, 5, 6]],
        [[2, 2, 5, 13], [1, 1, 5, 6]],
        [[1, 1, 5, 13]],
        [[1, 1, 13], [2, 2, 13]],
    ],
    ids=["one more", "other order", "fewer rows", "rewound"],
)
def test_a_processor_that_fails_changes_nothing(rows: Rows) -> None:
    hook = Hook(processor=Ledger(fail_on=13))
    hook([1, 1], [2, 2])
    hook([1, 1, 5], [2, 2, 5])
    with pytest.raises(RuntimeError, match="fails"):
        hook(*rows)
    assert hook([1, 1, 5, 6], [2, 2, 5, 6]) == [([1, 1], [5, 6]), ([2, 2], [5, 6])]
    fine = [[7 if token == 13 else token for token in row] for row in rows]
    assert hook(*fine) == [(row[:2], row[2:]) for row in fine]
    assert "init" not in hook.calls()[1:]
