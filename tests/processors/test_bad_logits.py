"""Logits and tokens that do not fit a state: refused by name, and never passed on unmasked."""

from __future__ import annotations

import pytest
import torch

import logitkit as lk
from logitkit.errors import BatchMismatch, ConfigurationError

NEVER = float("-inf")
VOCABULARY = lk.Vocabulary([*(bytes([b]) for b in range(256)), None], eos_ids=[256])
CONTEXT = lk.Context.of([[97], [98]], vocabulary_size=257)
PROCESSORS = [lk.Regex("a+", VOCABULARY), lk.RepetitionPenalty(2.0)]


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("rows", [1, 3])
def test_another_number_of_rows_is_refused(processor: lk.Regex, rows: int) -> None:
    state = processor.init_state(CONTEXT)
    with pytest.raises(BatchMismatch, match=f"got {rows} rows of logits for a state of 2 rows"):
        processor.process_logits(state, torch.zeros(rows, 257), CONTEXT)
    with pytest.raises(BatchMismatch, match=f"got {rows} rows of tokens for a state of 2 rows"):
        processor.advance(state, torch.zeros(rows, dtype=torch.int64))


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("logits", [torch.zeros(257), torch.zeros(2, 1, 257), torch.zeros(2, 257, dtype=torch.int64)])
def test_other_ranks_and_dtypes_are_refused(processor: lk.Regex, logits: torch.Tensor) -> None:
    with pytest.raises(ConfigurationError, match=r"needs \[rows, columns\] in floating point"):
        processor.process_logits(processor.init_state(CONTEXT), logits, CONTEXT)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_rows_that_share_memory_are_taken_apart(processor: lk.Regex) -> None:
    state = processor.init_state(CONTEXT)
    logits = torch.ones(1, 257)
    apart = processor.process_logits(state, logits.repeat(2, 1), CONTEXT)[1]
    assert torch.equal(processor.process_logits(state, logits.expand(2, 257), CONTEXT)[1], apart)
    assert torch.equal(logits, torch.ones(1, 257))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("pattern", ["[a-c]", "[^a]", "[\\x00-\\x7f]"])
def test_nan_on_an_illegal_token_is_masked(pattern: str, dtype: torch.dtype) -> None:
    regex = lk.Regex(pattern, VOCABULARY)
    context = lk.Context.of([[]], vocabulary_size=257)
    state = regex.init_state(context)
    clean = regex.process_logits(state, torch.zeros(1, 257, dtype=dtype), context)[1]
    logits = torch.where(clean == NEVER, torch.nan, 0.0).to(dtype)
    assert torch.equal(regex.process_logits(state, logits, context)[1], clean)


@pytest.mark.parametrize("pattern", ["[a-c]", "[^a]", "[\\x00-\\x7f]"])
def test_a_row_whose_legal_tokens_are_all_gone_ends(pattern: str) -> None:
    regex = lk.Regex(pattern, VOCABULARY)
    context = lk.Context.of([[]], vocabulary_size=257)
    state = regex.init_state(context)
    clean = regex.process_logits(state, torch.zeros(1, 257), context)[1]
    left = regex.process_logits(state, torch.where(clean == NEVER, 0.0, NEVER), context)[1]
    assert left[0, 256] == 0.0
    assert (left[0, :256] == NEVER).all()


def test_a_function_that_bans_all_ends_the_row() -> None:
    context = lk.Context.of([[]], vocabulary_size=257)
    both = lk.chain(lk.Regex("a", VOCABULARY), lk.Stateless(lambda logits, _: torch.full_like(logits, NEVER)))
    row = both.process_logits(both.init_state(context), torch.zeros(1, 257), context)[1][0]
    assert row[256] == 0.0
    assert (row[:256] == NEVER).all()


def test_a_state_means_the_same_however_its_device_is_spelled() -> None:
    first, second = lk.Regex("a+", VOCABULARY), lk.Regex("c+", VOCABULARY)
    first.init_state(CONTEXT)
    context = lk.Context.of([[]], vocabulary_size=257, device="cpu:0")
    row = second.process_logits(second.init_state(context), torch.zeros(1, 257), context)[1][0]
    assert (row != NEVER).nonzero().flatten().tolist() == [ord("c")]
