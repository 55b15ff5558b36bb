"""A few logits of a row on the host: rows that lie in memory with gaps are read and written as others are."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import VocabularyError
from logitkit.runtime.host_logits import HostLogits

COLUMNS = 64
PENALTIES = (lk.RepetitionPenalty(1.7), lk.FrequencyPenalty(0.3), lk.PresencePenalty(0.7), lk.NoRepeatNGram(2))

dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])


def spread(logits: Tensor) -> Tensor:
    """The same logits, each followed by two other values, as in llama.cpp's candidates."""
    return torch.stack((logits, *(torch.full_like(logits, 99.0) for _ in range(2))), -1)[..., 0]


def random(rows: int, dtype: torch.dtype) -> Tensor:
    logits = torch.randn(rows, COLUMNS, generator=torch.Generator().manual_seed(0))
    logits[:, ::7] = -torch.inf
    return logits.to(dtype)


@dtypes
def test_a_row_with_gaps_says_the_same(dtype: torch.dtype) -> None:
    dense = random(3, dtype)
    gaps = spread(dense)
    assert not gaps.is_contiguous()
    for ids in (np.array([5, 5, 63, 0]), np.array([], np.int64), np.array([2], np.int32)):
        for row in range(3):
            said = HostLogits.of(gaps).read(row, ids)
            assert said.dtype == np.float64 if dtype == torch.float64 else np.float32
            assert said.tobytes() == HostLogits.of(dense).read(row, ids).tobytes()
            assert torch.equal(torch.from_numpy(said).to(dtype), dense[row, torch.from_numpy(ids).long()])


@dtypes
@pytest.mark.parametrize("processor", PENALTIES, ids=lambda p: type(p).__name__)
def test_a_penalty_of_rows_with_gaps_has_the_same_bits(processor: lk.Processor[object], dtype: torch.dtype) -> None:
    context = lk.Context.of([[1, 2, 3, 1], [], [9, 9, 9, 14]], vocabulary_size=COLUMNS)
    state = processor.advance(processor.init_state(context), torch.tensor([[5, 7], [1, -1], [9, 9]]))
    dense = random(3, dtype)
    gaps = spread(dense)
    beside = gaps.as_strided((3, COLUMNS, 2), (*gaps.stride(), 1), 1)
    _, wanted = processor.process_logits(state, dense.clone(), context)
    _, got = processor.process_logits(state, gaps, context)
    assert torch.equal(got, wanted)
    assert not torch.equal(got, dense)
    assert (beside == 99).all()


@pytest.mark.parametrize("laid_out", [lambda logits: logits, spread])
def test_a_token_without_a_column_is_an_error(laid_out: object) -> None:
    host = HostLogits.of(laid_out(random(2, torch.float32)))  # type: ignore[operator]
    for call in (host.read, host.ban):
        with pytest.raises(VocabularyError, match="row 1 has the token 64, but the logits have 64 columns"):
            call(1, np.array([3, 64]))


def test_to_read_a_few_copies_no_row() -> None:
    host = HostLogits.of(spread(torch.zeros(1, 100_000)))
    ids = np.array([7, 99_999])
    tracemalloc.start()
    try:
        host.read(0, ids)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 10_000
