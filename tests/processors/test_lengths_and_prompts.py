"""Processors of lengths, of the first token and of the prompt: by hand, and against transformers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    EncoderNoRepeatNGramLogitsProcessor,
    EncoderRepetitionPenaltyLogitsProcessor,
    ExponentialDecayLengthPenalty,
    MinLengthLogitsProcessor,
    SuppressTokensAtBeginLogitsProcessor,
)

import logitkit as lk
from logitkit.errors import ConfigurationError, StateFileError
from tests.batches import same_bits, tensor_path
from tests.processors.four_logits import NEVER, on_either_path

LOGITS = [1.0, -2.0, 0.5, 4.0]
COLUMNS = 12

ids = st.integers(0, COLUMNS - 1)
texts = st.lists(st.sampled_from([0, 1, 2, 3, 11]), max_size=9)
seeds = st.integers(0, 2**32)


def random_logits(seed: int) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, COLUMNS, generator=rng) * 5
    return logits.masked_fill(torch.rand(1, COLUMNS, generator=rng) < 0.2, NEVER)


def check(processor: Any, theirs: Any, prompt: Sequence[int], output: Sequence[int], logits: Tensor) -> None:
    """Compare both paths, with the output in one piece and token by token, with transformers."""
    context = lk.Context.of([prompt], COLUMNS)
    at_once = state = processor.init_state(context)
    for token in output:
        state = processor.advance(state, torch.tensor([token]))
    at_once = processor.advance(at_once, torch.tensor([output], dtype=torch.int64).reshape(1, len(output)))
    wanted = theirs(torch.tensor([[*prompt, *output]], dtype=torch.int64), logits.clone())
    for one in (state, at_once):
        assert same_bits(processor.process_logits(one, logits.clone(), context)[1], wanted)
        with tensor_path():
            assert same_bits(processor.process_logits(one, logits.clone(), context)[1], wanted)


@pytest.mark.parametrize(
    ("processor", "prompt", "output", "wanted"),
    [
        (lk.MinLength(3, [3]), [0], [1], [1.0, -2.0, 0.5, NEVER]),
        (lk.MinLength(3, [3]), [0, 0], [1], LOGITS),
        (lk.MinLength(3, [3]), [0] * 5, [], LOGITS),
        (lk.SuppressAtBegin([1, 3]), [1, 3], [], [1.0, NEVER, 0.5, NEVER]),
        (lk.SuppressAtBegin([1, 3]), [], [0], LOGITS),
        # Three tokens more than one: 2 to the 3rd, less 1, times each amount.
        (lk.LengthDecay(1, 2, [1, 3]), [0, 0], [0, 0, 0, 0], [1.0, 12.0, 0.5, 32.0]),
        (lk.LengthDecay(4, 2, [1, 3]), [0, 0], [0, 0, 0, 0], LOGITS),
        (lk.LengthDecay(0, 0.5, [3]), [], [0], [1.0, -2.0, 0.5, 2.0]),
        (lk.EncoderRepetitionPenalty(2), [0, 1, 0], [3], [2.0, -1.0, 0.5, 4.0]),
        (lk.EncoderRepetitionPenalty(0.5), [3], [0, 1], [1.0, -2.0, 0.5, 2.0]),
        (lk.EncoderNoRepeatNGram(1), [0, 2], [1], [NEVER, -2.0, NEVER, 4.0]),
        # After 0 came 1, and after 1 came 0.
        (lk.EncoderNoRepeatNGram(2), [0, 1, 0], [], [1.0, NEVER, 0.5, 4.0]),
        (lk.EncoderNoRepeatNGram(2), [0, 1, 0], [3, 1], [NEVER, -2.0, 0.5, 4.0]),
        # Runs that only the output has may occur again.
        (lk.EncoderNoRepeatNGram(2), [0, 1], [3, 3], LOGITS),
        (lk.EncoderNoRepeatNGram(3), [0, 1, 2], [0, 1], [1.0, -2.0, NEVER, 4.0]),
        (lk.EncoderNoRepeatNGram(3), [0, 1], [0, 1], LOGITS),
    ],
)
def test_by_hand(processor: Any, prompt: list[int], output: list[int], wanted: list[float]) -> None:
    assert on_either_path(processor, output, LOGITS, prompt) == wanted


@given(texts, texts, st.integers(0, 12), st.lists(ids, min_size=1, max_size=3), seeds)
def test_min_length_is_that_of_transformers(
    prompt: list[int], output: list[int], n: int, eos: list[int], seed: int
) -> None:
    check(lk.MinLength(n, eos), MinLengthLogitsProcessor(n, eos), prompt, output, random_logits(seed))


@given(texts, texts, st.lists(ids, min_size=1, max_size=3), seeds)
def test_suppress_at_begin_is_that_of_transformers(
    prompt: list[int], output: list[int], suppressed: list[int], seed: int
) -> None:
    theirs = SuppressTokensAtBeginLogitsProcessor(suppressed, len(prompt))
    check(lk.SuppressAtBegin(suppressed), theirs, prompt, output, random_logits(seed))


def test_a_row_that_another_constraint_ended_at_its_first_token_stays_a_conflict() -> None:
    begin = lk.SuppressAtBegin([1, 3])
    both = lk.chain(begin, lk.ForcedEos([3], max_new_tokens=1))
    context = lk.Context.of([[], []], vocabulary_size=4)
    state = both.advance(both.init_state(context), torch.tensor([[3], [-1]]))
    assert begin.is_dead(state[0]).tolist() == [True, False]
    assert both.conflicts(state, columns=4).tolist() == [True, True]
    # In one call as in several, and after it.
    state = both.advance(both.init_state(context), torch.tensor([[3, 3], [0, 3]]))
    assert begin.is_dead(state[0]).tolist() == [True, False]


@given(
    texts,
    texts,
    st.integers(0, 6),
    st.sampled_from([0.3, 0.9, 1.01, 1.6, 7.0]),
    st.lists(ids, min_size=1, max_size=3, unique=True),
    seeds,
)
def test_length_decay_is_that_of_transformers(
    prompt: list[int], output: list[int], start: int, factor: float, eos: list[int], seed: int
) -> None:
    theirs = ExponentialDecayLengthPenalty((start, factor), eos, len(prompt))
    check(lk.LengthDecay(start, factor, eos), theirs, prompt, output, random_logits(seed))


def test_a_long_decay_stays_finite() -> None:
    decay = lk.LengthDecay(0, 2, [0, 1, 2])
    context = lk.Context.of([[]], 4)
    state = decay.advance(decay.init_state(context), torch.zeros(1, 5000, dtype=torch.int64))
    out = decay.process_logits(state, torch.tensor([[1.0, -1.0, 0.0, 5.0]]), context)[1]
    assert out.isfinite().all()
    assert out[0, :2].min() > 1e38
    assert out[0, 2:].tolist() == [0.0, 5.0]


@given(st.lists(ids, min_size=1, max_size=9), texts, st.sampled_from([0.5, 1.0, 1.2, 3.0]), seeds)
def test_encoder_repetition_penalty_is_that_of_transformers(
    prompt: list[int], output: list[int], penalty: float, seed: int
) -> None:
    theirs = EncoderRepetitionPenaltyLogitsProcessor(penalty, torch.LongTensor([prompt]))
    check(lk.EncoderRepetitionPenalty(penalty), theirs, prompt, output, random_logits(seed))


@given(st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=20), texts, st.integers(1, 5), seeds)
def test_encoder_no_repeat_ngram_is_that_of_transformers(
    prompt: list[int], output: list[int], n: int, seed: int
) -> None:
    theirs = EncoderNoRepeatNGramLogitsProcessor(n, torch.LongTensor([prompt]))
    check(lk.EncoderNoRepeatNGram(n), theirs, prompt, output, random_logits(seed))


class Largest(TorchDispatchMode):
    """Records the size of the largest tensor that an operation makes, in bytes."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor):
            self.bytes = max(self.bytes, made.untyped_storage().nbytes())
        return made


def test_long_runs_take_no_more_memory_than_short_ones() -> None:
    """One request of a batch may ask for the longest runs, and all other rows then have the same width."""
    context = lk.Context.of([[*range(COLUMNS)] * 40], COLUMNS)
    taken = {}
    for n in (2, 256):
        processor = lk.EncoderNoRepeatNGram(n)
        state = processor.init_state(context)
        with tensor_path(), Largest() as largest:
            processed = processor.process_logits(state, torch.zeros(1, COLUMNS), context)[1]
        assert processed.tolist() == [[NEVER, *[0.0] * (COLUMNS - 1)]]
        taken[n] = largest.bytes
    assert taken[256] < 2 * taken[2]


def test_a_configuration_may_leave_out_eos() -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
    made = lk.from_config({"min_length": 5}, vocabulary)
    assert made == lk.MinLength(5, (2,))
    assert isinstance(made, lk.MinLength)
    assert lk.from_config({"length_decay": {"start": 1, "factor": 1.1}}, vocabulary) == lk.LengthDecay(1, 1.1, (2,))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: lk.MinLength(-1, [1]), "n is -1; allowed are integers from 0"),
        (lambda: lk.MinLength(1, []), "eos_ids is empty; give at least one token id"),
        (lambda: lk.SuppressAtBegin([-1]), "ids"),
        (
            lambda: lk.LengthDecay(0, 0, [1]),
            r"factor is 0; allowed are numbers from 0.0001 to 10000 \(1 changes nothing\)",
        ),
        (lambda: lk.LengthDecay(-1, 1, [1]), "start is -1"),
        (lambda: lk.EncoderRepetitionPenalty(math.nan), "penalty is nan"),
        (lambda: lk.EncoderNoRepeatNGram(257), "n is 257; allowed are integers from 0 to 256"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        make()


@pytest.mark.parametrize(
    ("processor", "field", "value", "problem"),
    [
        (lk.SuppressAtBegin([1]), "left", 2, "left is not"),
        (lk.LengthDecay(1, 2, [1]), "factor", 0, "factor is not"),
        (lk.EncoderNoRepeatNGram(3), "n", 4, "n is not an integer from 0 to 3"),
        (lk.EncoderNoRepeatNGram(3), "latest", -2, "a token id is below -1"),
    ],
)
def test_a_corrupt_state_is_refused(processor: Any, field: str, value: float, problem: str, tmp_path: Path) -> None:
    state = processor.init_state(lk.Context.of([[1, 2]], 4))
    state = state._replace(**{field: torch.full_like(getattr(state, field), value)})
    lk.save_state(tmp_path / "state", state, processor)
    with pytest.raises(StateFileError, match=problem):
        lk.load_state(tmp_path / "state", processor)
