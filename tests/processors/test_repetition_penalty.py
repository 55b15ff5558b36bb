"""Tokens that occurred already become less likely: by hand, and against transformers and plain Python."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import RepetitionPenaltyLogitsProcessor

import logitkit as lk
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.penalties.token_history import ROOM
from tests.processors.both_paths import tensors_only
from tests.processors.four_logits import after

COLUMNS = 12
LOGITS = [4.0, -4.0, 0.5, -0.5]

dtypes = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])
tokens = st.integers(0, COLUMNS - 1)
penalties = st.sampled_from([0.5, 0.9, 1.0, 1.1, 1.3, 2.0, 3.7])


@pytest.mark.parametrize(
    ("processor", "prompt", "output", "wanted"),
    [
        (lk.RepetitionPenalty(2.0), [], [0, 1], [2.0, -8.0, 0.5, -0.5]),
        (lk.RepetitionPenalty(2.0), [2], [3], [4.0, -4.0, 0.25, -1.0]),
        (lk.RepetitionPenalty(0.5), [0], [3], [8.0, -4.0, 0.5, -0.25]),
        # Often is not more than once.
        (lk.RepetitionPenalty(2.0), [0, 0, 0], [0, 0], [2.0, -4.0, 0.5, -0.5]),
        (lk.RepetitionPenalty(1.0), [0, 1], [2, 3], LOGITS),
        (lk.RepetitionPenalty(2.0), [], [], LOGITS),
        (lk.RepetitionPenalty(2.0, include_prompt=False), [0, 1], [2], [4.0, -4.0, 0.25, -0.5]),
        (lk.RepetitionPenalty(2.0, include_prompt=False), [0, 1, 2, 3], [], LOGITS),
        # Windows: the last ones count, the prompt's among them.
        (lk.RepetitionPenalty(2.0, window=1), [0], [1], [4.0, -8.0, 0.5, -0.5]),
        (lk.RepetitionPenalty(2.0, window=2), [0, 1], [2], [4.0, -8.0, 0.25, -0.5]),
        (lk.RepetitionPenalty(2.0, window=3), [0, 1], [2], [2.0, -8.0, 0.25, -0.5]),
        (lk.RepetitionPenalty(2.0, window=2), [0, 1, 2, 3], [], [4.0, -4.0, 0.25, -1.0]),
        (lk.RepetitionPenalty(2.0, window=2), [], [0, 1, 2, 2], [4.0, -4.0, 0.25, -0.5]),
        (lk.RepetitionPenalty(2.0, window=2, include_prompt=False), [0], [3], [4.0, -4.0, 0.5, -1.0]),
        # -1 is not a token, in any position.
        (lk.RepetitionPenalty(2.0), [0], [-1, -1, 3, -1], [2.0, -4.0, 0.5, -1.0]),
        (lk.RepetitionPenalty(2.0, window=2), [1, 0], [-1, 3, -1], [2.0, -4.0, 0.5, -1.0]),
    ],
)
def test_by_hand(processor: lk.RepetitionPenalty, prompt: list[int], output: list[int], wanted: list[float]) -> None:
    assert after(processor, output, LOGITS, prompt) == wanted


def test_zero_and_infinite_logits_keep_their_value() -> None:
    logits = [0.0, math.inf, -math.inf, 1.0]
    assert after(lk.RepetitionPenalty(2.0), [0, 1, 2], logits) == logits


def test_the_rest_is_left_bit_by_bit() -> None:
    processor, context = lk.RepetitionPenalty(1.7), lk.Context.of([[1]], 4)
    logits = torch.tensor([[-0.0, 1.0, 1e-45, 3e38]])
    out = processor.process_logits(processor.init_state(context), logits.clone(), context)[1]
    keep = [0, 2, 3]
    assert out[0, keep].view(torch.int32).equal(logits[0, keep].view(torch.int32))
    assert out[0, 1] == torch.tensor(1.0) / 1.7


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_finite_logit_stays_finite(dtype: torch.dtype) -> None:
    most = torch.finfo(dtype).max
    for penalty, logit in ((2.0, -most), (0.5, most)):
        processor, context = lk.RepetitionPenalty(penalty), lk.Context.of([[0]], 2)
        state = processor.init_state(context)
        logits = torch.tensor([[logit, 1.0]], dtype=dtype)
        for out in (
            processor.process_logits(state, logits.clone(), context)[1],
            tensors_only(processor, state, logits),
        ):
            assert out.tolist() == [[logit, 1.0]]


@given(st.data(), dtypes, penalties)
def test_transformers_gives_the_same_bits(data: st.DataObject, dtype: torch.dtype, penalty: float) -> None:
    rows = data.draw(st.integers(1, 3))
    width, more = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 6))
    prompt, output = (
        torch.tensor(data.draw(st.lists(tokens, min_size=rows * n, max_size=rows * n))).reshape(rows, n).long()
        for n in (width, more)
    )
    seed = data.draw(st.integers(0, 2**32))
    logits = torch.randn(rows, COLUMNS, generator=torch.Generator().manual_seed(seed)) * 10
    logits = logits.where(logits.abs() > 1, torch.tensor(0.0)).to(dtype)
    logits[0, seed % COLUMNS] = -torch.inf
    theirs = RepetitionPenaltyLogitsProcessor(penalty)(torch.cat([prompt, output], 1), logits.clone())
    ours, context = lk.RepetitionPenalty(penalty), lk.Context.of(prompt.tolist(), COLUMNS)
    state = ours.advance(ours.init_state(context), output)
    by_rows = ours.process_logits(state, logits.clone(), context)[1]
    by_tensors = tensors_only(ours, state, logits)
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    assert by_rows.view(bits).equal(theirs.view(bits))
    assert by_tensors.view(bits).equal(theirs.view(bits))


def test_sixteen_bits_are_rounded_once() -> None:
    """1.1 in bfloat16 is 1.1015625: a penalty that is rounded before it is used gives other bits."""
    logits = torch.linspace(-30, 30, 4096).to(torch.bfloat16)[None]
    ids = torch.arange(4096)[None]
    theirs = RepetitionPenaltyLogitsProcessor(1.1)(ids, logits.clone())
    ours, context = lk.RepetitionPenalty(1.1), lk.Context.of(ids.tolist(), 4096)
    out = ours.process_logits(ours.init_state(context), logits.clone(), context)[1]
    assert out.equal(theirs)
    early = torch.where(logits < 0, logits * torch.tensor(1.1).bfloat16(), logits / torch.tensor(1.1).bfloat16())
    assert not out.equal(early)


configurations = st.builds(
    lk.RepetitionPenalty,
    penalties,
    window=st.none() | st.integers(1, 9),
    include_prompt=st.booleans(),
)


def reference(one: lk.RepetitionPenalty, prompt: list[int], output: list[int], logits: list[float]) -> list[float]:
    """Plain Python, in the arithmetic of 32 bits."""
    heard = [t for t in (prompt if one.include_prompt else []) + output if t != -1]
    heard = heard if one.window is None else heard[-one.window :]
    number = np.float32(one.penalty)
    return [
        float((np.float32(x) * number if x < 0 else np.float32(x) / number) if t in heard else x)
        for t, x in enumerate(logits)
    ]


@given(st.data())
def test_rows_of_all_configurations_in_one_batch(data: st.DataObject) -> None:
    """Prompts with gaps, penalties and windows differ; tokens come one by one or in pieces."""
    some = data.draw(st.lists(configurations, min_size=1, max_size=4))
    gaps = st.lists(tokens | st.just(-1), max_size=12)
    prompts = [data.draw(gaps) for _ in some]
    length = data.draw(st.integers(0, 14))
    output = [(data.draw(gaps) + [-1] * length)[:length] for _ in some]
    contexts = [
        dataclasses.replace(lk.Context.of([[]], COLUMNS), prompt=torch.tensor([prompt], dtype=torch.int64))
        for prompt in prompts
    ]
    state: Any = lk.concatenate([one.init_state(c) for one, c in zip(some, contexts, strict=True)])
    context = lk.concatenate_context(contexts)
    new = torch.tensor(output, dtype=torch.int64).reshape(len(some), length)
    done = 0
    while done < length:
        size = data.draw(st.integers(1, 5))
        piece = new[:, done : done + size]
        state = some[0].advance(state, piece[:, 0] if piece.shape[1] == 1 else piece)
        done += size
    rows = [[0.7 * (t - 5 + r) for t in range(COLUMNS)] for r in range(len(some))]
    logits = torch.tensor(rows)
    wanted = [reference(one, *three) for one, *three in zip(some, prompts, output, logits.tolist(), strict=True)]
    assert some[-1].process_logits(state, logits.clone(), context)[1].tolist() == wanted
    assert tensors_only(some[-1], state, logits).tolist() == wanted


def test_room_grows_by_doubling() -> None:
    processor = lk.RepetitionPenalty(2.0)
    state = processor.init_state(lk.Context.of([[7]], 3000))
    sizes, steps = {state.occurred.ids.shape[1]}, 3000
    for token in range(steps):
        state = processor.advance(state, torch.tensor([token * 7 % 3000]))
        sizes.add(state.occurred.ids.shape[1])
    room = sorted(sizes)
    assert room[0] >= ROOM
    assert all(b == 2 * a for a, b in pairwise(room))
    assert steps < room[-1] <= 2 * steps + ROOM
    assert state.occurred.ids[0, :steps].tolist() == [*range(steps)]
    assert int(state.occurred.number) == steps


def test_what_occurs_again_takes_no_room() -> None:
    processor = lk.FrequencyPenalty(1.0)
    state = processor.init_state(lk.Context.of([[]], 600))
    size = state.occurred.ids.shape[1]
    for token in range(2000):
        state = processor.advance(state, torch.tensor([token % 200]))
    assert state.occurred.ids.shape[1] == size
    assert state.occurred.counts[0, :200].tolist() == [10] * 200


@pytest.mark.parametrize(
    ("window", "max_length", "size"), [(None, 100, 100), (16, None, 16), (16, 100, 16), (1000, 100, 100)]
)
def test_a_history_of_known_length_never_grows(window: int | None, max_length: int | None, size: int) -> None:
    processor = lk.RepetitionPenalty(2.0, window=window)
    context = lk.Context.of([[1, 2, 3]], 600, max_length=max_length)
    state = processor.init_state(context)

    def sizes() -> tuple[int, int]:
        return state.history.tokens.shape[1], state.occurred.ids.shape[1]

    assert sizes() == ((0, size) if window is None else (size, 0))
    state = processor.advance(state, torch.arange(97)[None])
    assert sizes() == ((0, size) if window is None else (size, 0))
    assert state.occurred.counted.tolist() == [window is None]
    penalised = processor.process_logits(state, torch.full((1, 600), 2.0), context)[1] == 1.0
    assert penalised[0].nonzero().flatten().tolist() == list(range(97))[-(window or 97) :]


@pytest.mark.parametrize("penalty", [0, -1.0, math.inf, math.nan, "1.1", None, True, 9e-5, 10001, 10**400, np.True_])
def test_a_penalty_that_makes_no_sense_is_refused(penalty: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"penalty is .*; allowed are numbers from 0.0001 to 10000"):
        lk.RepetitionPenalty(penalty)


@pytest.mark.parametrize("window", [0, -3, 2.0, "4", True, 2**24 + 1, torch.tensor(True)])
def test_a_window_that_makes_no_sense_is_refused(window: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"window is .*; allowed are integers from 1 to 16777216 \(None counts all"
    ):
        lk.RepetitionPenalty(1.1, window=window)


def test_a_token_that_the_logits_do_not_have_is_reported() -> None:
    with pytest.raises(VocabularyError, match="row 0 has the token 9, but the logits have 4 columns"):
        after(lk.RepetitionPenalty(1.1), [3, 9, 1], LOGITS)


def test_numbers_of_numpy_are_numbers() -> None:
    one = lk.RepetitionPenalty(np.float32(1.5), window=np.int64(3))  # type: ignore[arg-type]
    assert one == lk.RepetitionPenalty(1.5, window=3)
    assert (type(one.penalty), type(one.window)) == (float, int)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("penalty", [1e-4, 1e4])
def test_the_extremes_make_no_nan(penalty: float, dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    logits = torch.tensor([[0.0, -0.0, info.max, info.min, info.tiny, -info.tiny]], dtype=dtype)
    processor, context = lk.RepetitionPenalty(penalty), lk.Context.of([[0, 1, 2, 3, 4, 5]], 6)
    state = processor.init_state(context)
    rows = processor.process_logits(state, logits.clone(), context)[1]
    assert rows.isfinite().all()
    assert rows.equal(tensors_only(processor, state, logits))


@pytest.mark.parametrize("piece", [1, 7])
def test_a_long_window_grows_up_to_its_size(piece: int) -> None:
    window = 5000
    processor = lk.RepetitionPenalty(2.0, window=window)
    state = processor.init_state(lk.Context.of([[7], [8]], 600))
    assert state.history.tokens.shape[1] <= 2 * ROOM
    heard = [7]
    for start in range(0, 5600, piece):
        new = [t % 600 for t in range(start, start + piece)]
        heard += new
        state = processor.advance(state, torch.tensor([new, new]))
    assert state.history.tokens.shape[1] == window
    assert sorted(state.history.tokens[0].tolist()) == sorted(heard[-window:])
    assert state.history.problem() is None


@pytest.mark.parametrize("piece", [1, 5])
def test_more_tokens_than_the_context_said_are_remembered_too(piece: int) -> None:
    processor = lk.RepetitionPenalty(2.0)
    state = processor.init_state(lk.Context.of([[1]], 600, max_length=4))
    for start in range(0, 10, piece):
        state = processor.advance(state, torch.arange(start, start + piece)[None])
    assert state.occurred.ids[0, :10].tolist() == [*range(10)]


@pytest.mark.parametrize("by_columns", [True, False])
def test_columns_that_are_not_known_yet_bound_nothing(by_columns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # A batch of requests enters rows before it has seen logits, and a prompt may have ids that the logits lack.
    if not by_columns:
        monkeypatch.setattr("logitkit.penalties.token_counts.by_tensors", lambda _: True)
    prompt, output = [4, 5, 6, 40, 41], [7, 5, 3, 2, 1, 0]
    found = []
    for columns in (0, 4, 50):
        penalty = lk.RepetitionPenalty(2.0)
        state = penalty.init_state(
            lk.Context.of([prompt], vocabulary_size=columns, max_length=len(prompt) + len(output))
        )
        for token in output:
            state = penalty.advance(state, torch.tensor([token]))
        found.append(state.occurred.ids[0, : int(state.occurred.number[0])].tolist())
    assert found == [sorted({*prompt, *output})] * 3
