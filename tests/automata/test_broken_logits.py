"""Broken rows on the host, in every dtype and layout, as numpy sees them; and the masks that read them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from logitkit.errors import BrokenLogits
from logitkit.runtime.logit_arrays import as_array, check_left, check_row, is_broken
from logitkit.runtime.row_mask import WHOLE_BYTES, RowMask
from logitkit.runtime.tensor_logits import broken_rows, end_broken

NEVER, INF, NAN = float("-inf"), float("inf"), float("nan")
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
VALUES = st.sampled_from([0.0, -0.0, 1.5, -2.5, -60000.0, 60000.0, NEVER, INF, NAN, -NAN])


def judged(values: list[float]) -> bool:
    """Whether a row is broken, one number after another."""
    return any(math.isnan(v) or v == math.inf for v in values) or all(v == -math.inf for v in values)


@given(values=st.lists(VALUES, min_size=1, max_size=9), dtype=st.sampled_from(DTYPES), stride=st.integers(1, 5))
def test_a_row_is_broken_as_its_numbers_say(values: list[float], dtype: torch.dtype, stride: int) -> None:
    # Between the columns is what may be between llama.cpp's logits.
    memory = torch.full((1, len(values) * stride), INF, dtype=dtype)
    memory[0, 1::3] = NAN
    memory[0, ::stride] = torch.tensor(values, dtype=dtype)
    logits = memory[:, ::stride]
    array, never, _ = as_array(logits)
    assert is_broken(array[0], never) == judged(values)
    assert broken_rows(logits).tolist() == [judged(values)]
    if judged(values):
        with pytest.raises(BrokenLogits, match="for row 7: ") as caught:
            check_row(array[0], never, 7)
        counts = {name: sum(map(is_one, values)) for name, is_one in (("NaN", math.isnan), ("+inf", INF.__eq__))}
        said = " and ".join(f"{n} of {len(values)} are {name}" for name, n in counts.items() if n)
        assert caught.value.reason == (said or f"all {len(values)} are -inf")
    left = [v for v in values if math.isnan(v) or v == math.inf]
    if left:
        with pytest.raises(BrokenLogits):
            check_left(array[0], never, 0)
    else:
        check_left(array[0], never, 0)


@pytest.mark.parametrize("between", [NAN, INF, NEVER, 5.0])
@pytest.mark.parametrize("stride", [2, 3, 7])
def test_numbers_between_the_columns_do_not_count(between: float, stride: int) -> None:
    for values in ([1.0, 2.0, NEVER], [NEVER] * 3, [1.0, NAN, 2.0], [NEVER, 1.0, INF], [-3.0, NEVER, -4.0]):
        memory = np.full(3 * stride, between, np.float32)
        memory[::stride] = values
        assert is_broken(memory[::stride], -np.inf) == judged(values)


def test_an_empty_row_is_not_broken() -> None:
    assert not is_broken(np.zeros(0, np.float32), -np.inf)


def test_a_broken_row_is_ended_with_tensors_only() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0], [NAN, 2.0, 3.0], [1.0, INF, 3.0]])
    found = end_broken(logits.clone(), broken_rows(logits), [0, 2])
    assert found.tolist() == [[1, 2, 3], [0, NEVER, 0], [0, NEVER, 0]]


def mask_of(kind: str, size: int) -> RowMask:
    legal = {
        "allowed": np.arange(size) % 100 == 30,
        "banned": np.arange(size) % 100 != 30,
        "ceiling": np.arange(size) % 2 == 0,
        "late ceiling": np.arange(size) >= size // 2,
    }[kind]
    ids, ends = np.flatnonzero(legal), np.array([31])
    if kind == "allowed":
        return RowMask(size, ends, ids[:4], allowed=ids)
    if kind == "banned":
        return RowMask(size, ends, ids[:4], banned=np.flatnonzero(~legal))
    probe = np.flatnonzero(legal[: size // 3])[:4]
    return RowMask(size, ends, probe, ceiling=np.where(legal, np.float32(np.nan), np.float32(-np.inf)))


def applied(mask: RowMask, logits: torch.Tensor, *, in_place: bool) -> Any:
    if not in_place:
        return mask.masked(logits)
    array, never, zero = as_array(logits)
    return mask.apply(array[0], never, zero, 0)


# A short row is read whole, a long one as far as its logits are left.
@pytest.mark.parametrize("size", [400, WHOLE_BYTES])
@pytest.mark.parametrize("kind", ["allowed", "banned", "ceiling", "late ceiling"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("padding", [0, 3])
def test_a_mask_refuses_a_broken_row(kind: str, size: int, dtype: torch.dtype, in_place: bool, padding: int) -> None:
    mask = mask_of(kind, size)
    legal = np.flatnonzero(mask.legal())
    places = {"first": legal[0], "last": legal[-1], "middle": legal[len(legal) // 2]}
    for value in (NAN, -NAN, INF):
        for place in (*places.values(), slice(None)):
            logits = torch.randn(1, size + padding).to(dtype)
            logits[0, place] = value
            with pytest.raises(BrokenLogits):
                applied(mask, logits, in_place=in_place)
    with pytest.raises(BrokenLogits, match="are -inf"):
        applied(mask, torch.full((1, size + padding), NEVER, dtype=dtype), in_place=in_place)
    # Bans of the engine are legal, also of all tokens that the mask allows, which cuts the row off.
    logits = torch.randn(1, size + padding).to(dtype)
    logits[0, torch.from_numpy(legal[::2].copy())] = NEVER
    applied(mask, logits.clone(), in_place=in_place)
    logits[0, torch.from_numpy(legal)] = NEVER
    cut_off = applied(mask, logits, in_place=in_place)
    assert (cut_off if in_place else cut_off[1]) is (31 not in legal)


@pytest.mark.parametrize("size", [400, WHOLE_BYTES])
def test_a_banned_token_never_changes_what_is_left(size: int) -> None:
    mask = mask_of("allowed", size)
    logits = torch.randn(1, size)
    wanted = mask.masked(logits)[0]
    logits[0, 31] = NAN
    if size == 400:
        with pytest.raises(BrokenLogits):
            mask.masked(logits)
    else:
        assert torch.equal(mask.masked(logits)[0], wanted)
