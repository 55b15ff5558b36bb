"""Processors that shape the distribution: by hand, and on odd logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, StateFileError
from tests.batches import logits_of, same_bits
from tests.processors.both_paths import both_paths, by_tensors, ordinary, tied
from tests.processors.four_logits import NEVER, after

# Arguments of types that no type checker lets pass.
ANY: Any = lk

LOGITS = [1.0, 4.0, 3.0, 2.0]

# Probabilities of 0.1, 0.4, 0.3 and 0.2.
CHANCES = [math.log(p) for p in (0.1, 0.4, 0.3, 0.2)]
EVEN = [0.0, 0.0, 0.0, 0.0]

dtypes = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])
seeds = st.integers(0, 2**32)
columns = st.sampled_from([1, 2, 5, 40, 1500])


@pytest.mark.parametrize(
    ("processor", "logits", "kept"),
    [
        (lk.TopK(1), LOGITS, [1]),
        (lk.TopK(3), LOGITS, [1, 2, 3]),
        (lk.TopK(1, min_tokens_to_keep=2), LOGITS, [1, 2]),
        (lk.TopK(0, min_tokens_to_keep=2), LOGITS, [0, 1, 2, 3]),
        (lk.TopK(4), LOGITS, [0, 1, 2, 3]),
        (lk.TopK(2**31 - 1), LOGITS, [0, 1, 2, 3]),
        # All that tie with the last stay.
        (lk.TopK(2), [1.0, 4.0, 1.0, 1.0], [0, 1, 2, 3]),
        (lk.TopK(1), EVEN, [0, 1, 2, 3]),
        (lk.TopP(0.35), CHANCES, [1]),
        (lk.TopP(0.45), CHANCES, [1, 2]),
        (lk.TopP(0.75), CHANCES, [1, 2, 3]),
        (lk.TopP(0.95), CHANCES, [0, 1, 2, 3]),
        (lk.TopP(0), CHANCES, [1]),
        (lk.TopP(0, min_tokens_to_keep=3), CHANCES, [1, 2, 3]),
        (lk.TopP(0.1, min_tokens_to_keep=9), CHANCES, [0, 1, 2, 3]),
        # As many of equal ones as are needed.
        (lk.TopP(0.6), EVEN, [1, 2, 3]),
        (lk.TopP(0.1), EVEN, [3]),
        (lk.MinP(0.6), CHANCES, [1, 2]),
        (lk.MinP(0.45), CHANCES, [1, 2, 3]),
        (lk.MinP(1), CHANCES, [1]),
        (lk.MinP(1), EVEN, [0, 1, 2, 3]),
        (lk.MinP(1, min_tokens_to_keep=3), CHANCES, [1, 2, 3]),
        (lk.MinP(1, min_tokens_to_keep=2), [0.0, 5.0, 0.0, 0.0], [0, 1]),
        (lk.MinP(1e-30), CHANCES, [0, 1, 2, 3]),
        # The entropy is 1.28 nats: 0.3 says 1.20, 0.2 says 1.61, 0.4 says 0.92 and 0.1 says 2.30.
        (lk.TypicalP(0.25), CHANCES, [2]),
        (lk.TypicalP(0.45), CHANCES, [2, 3]),
        (lk.TypicalP(0.6), CHANCES, [1, 2, 3]),
        (lk.TypicalP(0.25, min_tokens_to_keep=2), CHANCES, [2, 3]),
        (lk.TypicalP(0.1), EVEN, [0, 1, 2, 3]),
        # The deviation is 1.118.
        (lk.TopNSigma(0.5), LOGITS, [1]),
        (lk.TopNSigma(1), LOGITS, [1, 2]),
        (lk.TopNSigma(2), LOGITS, [1, 2, 3]),
        (lk.TopNSigma(1), EVEN, [0, 1, 2, 3]),
        # The deviation of the remaining logits is 0.816.
        (lk.TopNSigma(1), [NEVER, 4.0, 3.0, 2.0], [1]),
        (lk.TopNSigma(1.3), [NEVER, 4.0, 3.0, 2.0], [1, 2]),
        (lk.Xtc(1, 0.15), CHANCES, [0, 3]),
        (lk.Xtc(1, 0.25), CHANCES, [0, 2, 3]),
        (lk.Xtc(1, 0.35), CHANCES, [0, 1, 2, 3]),
        (lk.Xtc(1, 0.45), CHANCES, [0, 1, 2, 3]),
        (lk.Xtc(1, 0.51), [0.0, 9.0, 0.0, 0.0], [0, 1, 2, 3]),
        (lk.Xtc(1, 0), CHANCES, [0]),
        (lk.Xtc(1, 0), [NEVER, 4.0, 3.0, NEVER], [2]),
        (lk.Xtc(1, 0.1), EVEN, [3]),
        (lk.Xtc(0, 0.1), CHANCES, [0, 1, 2, 3]),
        (lk.Temperature(0), LOGITS, [1]),
        (lk.Temperature(0), EVEN, [0]),
    ],
)
def test_what_is_kept(processor: lk.Processor[Any], logits: list[float], kept: list[int]) -> None:
    given_ = torch.tensor([logits])
    out = both_paths(processor, given_)[0]
    assert (out != NEVER).nonzero().flatten().tolist() == [i for i in kept if logits[i] != NEVER]
    assert torch.equal(out[kept], given_[0, kept])


def test_temperature_divides() -> None:
    assert after(lk.Temperature(2), [], LOGITS) == [0.5, 2.0, 1.5, 1.0]
    assert after(lk.Temperature(0.5), [0, 1], [-1.0, NEVER, 0.0, 3.0]) == [-2.0, NEVER, 0.0, 6.0]


NEUTRAL: list[lk.Processor[Any]] = [
    lk.Temperature(1),
    lk.TopK(0),
    lk.TopP(1),
    lk.MinP(0),
    lk.TypicalP(1),
    lk.TopNSigma(0),
    lk.TopNSigma(-1),
    lk.TopA(0),
    lk.TopH(0),
    lk.EpsilonCutoff(0),
    lk.EtaCutoff(0),
    lk.PLess(enabled=False),
    lk.TailFree(1),
    lk.DynamicTemperature(1, 1, 0.5),
    lk.QuadraticSmoothing(0, 2),
    lk.Xtc(0),
    lk.Xtc(1, 0.6),
]

SHARP: list[lk.Processor[Any]] = [
    *(lk.Temperature(t) for t in (0, 1e-4, 0.7, 3, 1e4)),
    *(lk.TopK(k) for k in (1, 5, 11)),
    *(lk.TopP(p) for p in (0, 0.4, 0.99)),
    *(lk.MinP(p) for p in (1e-30, 0.1, 1)),
    lk.MinP(0.3, min_tokens_to_keep=12),
    *(lk.TypicalP(p) for p in (0.01, 0.9)),
    *(lk.TopNSigma(n) for n in (0.01, 1, 3)),
    *(lk.TopA(a) for a in (1e-30, 0.1, 1)),
    *(lk.TopH(h) for h in (1e-30, 0.4, 1)),
    lk.TopH(0.5, candidates=7),
    *(lk.EpsilonCutoff(e) for e in (1e-30, 0.05, 1)),
    lk.EpsilonCutoff(0.3, min_tokens_to_keep=12),
    *(lk.EtaCutoff(e) for e in (1e-30, 0.05, 1)),
    lk.EtaCutoff(0.3, min_tokens_to_keep=12),
    lk.PLess(),
    lk.PLess(relaxed=True),
    *(lk.TailFree(z) for z in (0, 0.5, 0.99)),
    lk.TailFree(0.2, min_tokens_to_keep=7),
    *(lk.DynamicTemperature(*p) for p in ((0.1, 1.5), (0.5, 2, 0.7), (1e-4, 1e4), (1, 1.5, 0))),
    *(lk.QuadraticSmoothing(*p) for p in ((0.2,), (1e4,), (0.3, 2), (1e-4, 3))),
    *(lk.Xtc(1, t) for t in (0, 0.01, 0.1, 0.5)),
]


@pytest.mark.parametrize("processor", NEUTRAL, ids=repr)
def test_a_neutral_value_leaves_every_bit(processor: lk.Processor[Any]) -> None:
    for dtype, bits in ((torch.float32, torch.int32), (torch.bfloat16, torch.int16)):
        logits = logits_of(0, (3, 50), dtype)
        logits[1, 7] = torch.nan
        for path in (both_paths, by_tensors):
            assert path(processor, logits).view(bits).equal(logits.view(bits))


@pytest.mark.parametrize("processor", SHARP, ids=repr)
def test_odd_logits_leave_something_and_no_nan(processor: lk.Processor[Any]) -> None:
    never, inf, nan = -math.inf, math.inf, math.nan
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        most = torch.finfo(dtype).max
        rows = [
            [never] * 12,
            [nan] * 12,
            [nan] * 11 + [1.0],
            [never] * 11 + [1.0],
            [inf] * 12,
            [most, -most, 0.0, *[1.0] * 9],
            [-most] * 12,
            [nan, 4.0, 1.0, 2.0, *[0.5] * 8],
            [inf, 1.0, inf, never, nan, 0.0, *[2.0] * 6],
        ]
        given_ = torch.tensor(rows, dtype=dtype)
        out = both_paths(processor, given_)
        assert not out.isnan().any()
        assert (out[2:] > NEVER).any(1).all()
        assert out[:2].isneginf().all()
        assert torch.equal(out.isposinf() & given_.isposinf(), out.isposinf())
        # Infinite logits share all probability.
        assert out[-1].isposinf().any()


@pytest.mark.parametrize("processor", SHARP, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_logits_may_lie_in_memory_in_any_way(processor: lk.Processor[Any], dtype: torch.dtype) -> None:
    logits = ordinary(5, 40).to(dtype)
    wanted, context = both_paths(processor, logits), lk.Context.of([[]] * 3, 40)
    state = processor.init_state(context)
    room = torch.empty(3, 80, dtype=dtype)
    room[:, ::2] = logits
    for given_ in (logits.T.contiguous().T, room[:, ::2]):
        assert same_bits(processor.process_logits(state, given_, context)[1], wanted)


@given(st.sampled_from(SHARP), seeds, dtypes, columns)
def test_both_paths_agree(processor: lk.Processor[Any], seed: int, dtype: torch.dtype, width: int) -> None:
    both_paths(processor, logits_of(seed, (3, width), dtype))
    both_paths(processor, tied(seed, width).to(dtype))


def test_a_hot_row_that_has_no_room_keeps_its_order() -> None:
    logits = torch.tensor([[60000.0, 59968.0, -60000.0, NEVER]], dtype=torch.float16)
    out = both_paths(lk.Temperature(0.5), logits)
    assert out.tolist() == [[0.0, -64.0, -65504.0, NEVER]]
    # And so does one that has room for its best only.
    logits = torch.tensor([[1.0, -60000.0, NEVER, 0.0]], dtype=torch.float16)
    assert both_paths(lk.Temperature(0.5), logits).tolist() == [[2.0, -65504.0, NEVER, 0.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1e-4, 0.5, 0.999, 1.001, 1.5, 1e4])
def test_a_wide_row_has_the_same_bits_on_both_paths(temperature: float, dtype: torch.dtype) -> None:
    most = torch.finfo(dtype).max
    edges = [most, most / 2, most * temperature, most / 2 * temperature]
    finite = [number for number in edges if number <= most]
    rows = [[sign * number, other, 0.3, 1e-3] for number in finite for sign in (1, -1) for other in (NEVER, -1.0, 2.0)]
    rows += [[math.nan, 1.0, NEVER, 2.0], [math.inf, 1.0, NEVER, 2.0], [math.nan, math.inf, 1.0, -most], [NEVER] * 4]
    out = both_paths(lk.Temperature(temperature), torch.tensor(rows, dtype=dtype))
    assert out[:-4][torch.tensor(rows[:-4]) > NEVER].isfinite().all()


def test_random_numbers_follow_the_stream_and_the_length() -> None:
    xtc, width = lk.Xtc(0.5, 0.05, seed=3), 4
    context = lk.Context.of([[1, 2], [1, 2], [1, 2]], width)
    logits = torch.tensor([CHANCES]).repeat(3, 1)

    def removed(state: Any, steps: int) -> list[list[bool]]:
        found = []
        for _ in range(steps):
            out = xtc.process_logits(state, logits[: len(state.seed)].clone(), context)[1]
            found.append(out.isneginf().any(1).tolist())
            state = xtc.advance(state, torch.zeros(len(state.seed), dtype=torch.int64))
        return [list(row) for row in zip(*found, strict=True)]

    rows = removed(xtc.init_state(context), 60)
    assert rows == removed(xtc.init_state(context), 60)
    assert rows[0] != rows[1] != rows[2] != rows[0]
    assert all(15 <= sum(row) <= 45 for row in rows)
    # A draft that was taken back, and a prompt that had been output before, are at the same place.
    state = xtc.advance(xtc.init_state(context), torch.zeros(3, 9, dtype=torch.int64))
    assert [row[9:] for row in rows] == removed(state, 51)
    longer = lk.Context.of([[1, 2, *[0] * 9]] * 3, width)
    assert [row[9:] for row in rows] == removed(xtc.init_state(longer), 51)
    # Rows keep their stream where they go.
    moved = lk.select_context(context, torch.tensor([2, 0]))
    assert removed(xtc.init_state(moved), 60) == [rows[2], rows[0]]
    assert removed(lk.Xtc(0.5, 0.05, seed=4).init_state(context), 60) != rows


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: lk.Temperature(-1), "temperature is -1; allowed are 0 .* and numbers from 0.0001 to 10000"),
        (lambda: lk.Temperature(1e-5), "temperature is 1e-05"),
        (lambda: lk.Temperature(math.nan), "temperature is nan"),
        (lambda: lk.Temperature(math.inf), "temperature is inf"),
        (lambda: lk.Temperature(True), "temperature is True"),
        (lambda: ANY.Temperature("1"), "temperature is '1'"),
        (lambda: lk.TopK(-1), r"k is -1; allowed are integers from 0 to 2147483647 \(0 changes nothing\)"),
        (lambda: ANY.TopK(2.0), "k is 2.0"),
        (lambda: lk.TopK(2, 0), "min_tokens_to_keep is 0; allowed are integers from 1"),
        (lambda: lk.TopP(1.1), r"p is 1.1; allowed are numbers from 0 to 1 \(1 changes nothing\)"),
        (lambda: lk.TopP(0.5, -1), "min_tokens_to_keep is -1"),
        (lambda: lk.MinP(-0.1), "p is -0.1"),
        (lambda: lk.MinP(0.1, True), "min_tokens_to_keep is True"),
        (lambda: lk.TypicalP(0), "p is 0; allowed are numbers from 1e-06 to 1"),
        (lambda: lk.TypicalP(0.1, 0), "min_tokens_to_keep is 0"),
        (lambda: lk.TopNSigma(1e5), "n is 100000.0; allowed are numbers from -10000 to 10000"),
        (lambda: lk.Xtc(1.5), "probability is 1.5"),
        (lambda: lk.Xtc(0.5, -1), "threshold is -1"),
        (lambda: lk.Xtc(0.5, 0.1, -1), "seed is -1"),
        (lambda: lk.Xtc(0.5, 0.1, 2**63), "seed is 9223372036854775808"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        make()


@pytest.mark.parametrize(
    ("processor", "field", "value", "problem"),
    [
        (lk.Temperature(1), "temperature", math.nan, "temperature is not 0, or a number"),
        (lk.Temperature(1), "temperature", 1e-9, "temperature is not 0, or a number"),
        (lk.TopK(1), "k", -1, "k is not an integer from 0"),
        (lk.TopP(1), "p", 1.5, "p is not a number"),
        (lk.TopP(1), "keep", 0, "keep is not an integer from 1"),
        (lk.MinP(1), "p", -0.5, "p is not a number"),
        (lk.MinP(1, 2), "keep", 0, "keep is not an integer from 1"),
        (lk.TypicalP(1), "p", 0, "p is not a number"),
        (lk.TypicalP(1), "keep", -1, "keep is not an integer from 1"),
        (lk.TopNSigma(1), "n", math.inf, "n is not a number from 0"),
        (lk.Xtc(1), "probability", 2, "probability is not a number"),
        (lk.Xtc(1), "threshold", math.nan, "threshold is not a number"),
        (lk.Xtc(1), "position", -1, "position is not an integer from 0"),
    ],
)
def test_a_corrupt_state_is_refused(processor: Any, field: str, value: float, problem: str, tmp_path: Path) -> None:
    state = processor.init_state(lk.Context.of([[]], 4))
    state = state._replace(**{field: torch.full_like(getattr(state, field), value)})
    lk.save_state(tmp_path / "state", state, processor)
    with pytest.raises(StateFileError, match=problem):
        lk.load_state(tmp_path / "state", processor)


def test_a_constraint_may_not_follow_a_truncation() -> None:
    shapes = lk.Temperature, lk.DynamicTemperature, lk.QuadraticSmoothing
    for truncation in [one for one in SHARP if not isinstance(one, shapes)]:
        lk.chain(lk.BanTokens([1]), lk.Temperature(0.5), truncation)
        with pytest.raises(ConfigurationError, match="BanTokens after the truncation"):
            lk.chain(truncation, lk.BanTokens([1]))


TRUNCATIONS: list[Callable[[int], lk.Processor[Any]]] = [
    lambda keep: lk.TopK(2, keep),
    lambda keep: lk.TopP(0.5, keep),
    lambda keep: lk.MinP(0.1, keep),
    lambda keep: lk.TypicalP(0.1, keep),
]


@pytest.mark.parametrize("make", TRUNCATIONS, ids=["top k", "top p", "min p", "typical p"])
def test_the_bounds_of_how_many_are_kept(make: Callable[[int], lk.Processor[Any]]) -> None:
    logits = logits_of(0, (2, 12), torch.float32)
    for path in (both_paths, by_tensors):
        assert path(make(2**31 - 1), logits).equal(logits)
        assert path(make(1), logits).isneginf().any(1).all()
    for keep in (0, 2**31, 2**40):
        with pytest.raises(
            ConfigurationError, match=f"min_tokens_to_keep is {keep}; allowed are integers from 1 to 2147483647"
        ):
            make(keep)
