"""Left pads by mask, by id and by looks, against a plain count."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.tracking import Padding

NO_READER = lk.RepetitionPenalty(2.0, include_prompt=False)
ROWS = st.integers(1, 6).flatmap(
    lambda width: st.lists(st.lists(st.integers(0, 2), min_size=width, max_size=width), min_size=1, max_size=4)
)


def leading(row: list[int], pad: int) -> int:
    return next((i for i, token in enumerate(row) if token != pad), len(row))


@given(rows=ROWS, pad=st.integers(0, 2))
def test_by_id(rows: list[list[int]], pad: int) -> None:
    pads = Padding(NO_READER, pad_id=pad)
    counts: Any = pads.skip
    assert counts(torch.tensor(rows)).tolist() == [leading(row, pad) for row in rows]
    texts = [[i for i in row if i >= 0] for row in pads.without(torch.tensor(rows)).tolist()]
    assert texts == [row[leading(row, pad) :] for row in rows]


@given(width=st.integers(1, 6), data=st.data())
def test_by_mask(width: int, data: st.DataObject) -> None:
    zeros = data.draw(st.lists(st.integers(0, width), min_size=1, max_size=4))
    mask = torch.tensor([[0] * n + [1] * (width - n) for n in zeros])
    for kind in (torch.int64, torch.bool, torch.float32):
        pads = Padding(NO_READER, mask.to(kind))
        assert isinstance(pads.skip, torch.Tensor)
        assert pads.skip.tolist() == zeros
        prompt = torch.arange(width).repeat(len(zeros), 1)
        texts = [[i for i in row if i >= 0] for row in pads.without(prompt).tolist()]
        assert texts == [list(range(n, width)) for n in zeros]


def test_lists_have_no_pads() -> None:
    assert Padding(NO_READER, pad_id=0).without([[0, 1], [2]]).tolist() == [[0, 1], [2, -1]]
    assert Padding(NO_READER).without([[], [2]]).tolist() == [[-1], [2]]
