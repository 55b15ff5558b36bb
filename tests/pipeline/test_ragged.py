"""Ragged tokens as tensors, compared with loops over lists."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from logitkit.batching.ragged import drafts_before, known_tokens, ragged, rows_by_slot, tokens_between

ids = st.integers(0, 99)


def filled(rows: list[list[int]], width: int) -> list[list[int]]:
    return [row + [-1] * (width - len(row)) for row in rows]


@given(st.lists(ids), st.integers(0, 3))
def test_placeholders_are_left_out(tokens: list[int], count: int) -> None:
    assert known_tokens([*tokens, *[-1] * count]) == tokens


@given(st.dictionaries(st.integers(0, 5), st.lists(ids, max_size=4)), st.integers(6, 9))
def test_tokens_of_rows(tokens: dict[int, list[int]], rows: int) -> None:
    found = ragged(tokens, rows)
    lists = [tokens.get(row, []) for row in range(rows)]
    width = max(map(len, lists))
    assert found.dtype == torch.int64
    if width == 1:
        assert found.tolist() == [row[0] if row else -1 for row in lists]
    else:
        assert found.tolist() == filled(lists, width)


def test_the_last_token_of_a_text_is_read() -> None:
    text, place = torch.tensor([[4, 5, 6]]), torch.tensor([0])
    assert tokens_between(text, place, place + 1, place + 3, torch.arange(3)).tolist() == [[5, 6, -1]]


@given(st.data(), st.sampled_from([torch.int32, torch.int64]))
def test_tokens_between_two_positions(data: st.DataObject, dtype: torch.dtype) -> None:
    texts = data.draw(st.lists(st.lists(ids, min_size=6, max_size=6), min_size=1, max_size=4))
    places = st.tuples(st.integers(0, len(texts) - 1), st.integers(0, 6), st.integers(0, 6))
    asked = data.draw(st.lists(places, max_size=5))
    width = data.draw(st.integers(1, 4))
    rows, begin, end = torch.tensor(asked, dtype=torch.int64).reshape(-1, 3).unbind(1)
    found = tokens_between(torch.tensor(texts, dtype=dtype), rows, begin, end, torch.arange(width))
    wanted = [texts[row][first:last][:width] for row, first, last in asked]
    assert found.tolist() == filled(wanted, width)
    assert found.dtype == torch.int64


@st.composite
def calls(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], int, int]:
    """The slot of each row of logits, how many drafts come before it, its token, the number of slots, and of drafts."""
    most = draw(st.integers(0, 3))
    count = draw(st.integers(1, 6))
    present = draw(st.lists(st.integers(0, count - 1), unique=True))
    slots: list[int] = []
    drafted: list[int] = []
    for slot in present:
        rows = draw(st.integers(1, most + 1))
        slots += [slot] * rows
        drafted += range(rows)
    return slots, drafted, draw(st.lists(ids, min_size=len(slots), max_size=len(slots))), count, most


@given(calls())
def test_rows_of_slots(call: tuple[list[int], list[int], list[int], int, int]) -> None:
    slots, drafted, _, count, most = call
    wanted = [[row for row, its in enumerate(slots) if its == slot] for slot in range(count)]
    found = rows_by_slot(
        torch.tensor(slots, dtype=torch.int64), torch.tensor(drafted, dtype=torch.int64), count, most + 1
    )
    assert found.tolist() == filled(wanted, most + 1)


@given(calls(), st.sampled_from([torch.int32, torch.int64]))
def test_drafts_before_rows(call: tuple[list[int], list[int], list[int], int, int], dtype: torch.dtype) -> None:
    slots, drafted, tokens, count, most = call
    wanted = [tokens[row - before + 1 : row + 1] for row, before in enumerate(drafted)]
    slot, before = (torch.tensor(numbers, dtype=torch.int64) for numbers in (slots, drafted))
    found = drafts_before(torch.tensor(tokens, dtype=dtype), slot, before, count, torch.arange(most + 1))
    assert found.tolist() == filled(wanted, most)
    assert found.shape == (len(slots), most)
