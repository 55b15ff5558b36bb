"""Top-A against its formula in 64 bits, worked out by numpy."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError, StateFileError
from tests.batches import same_bits
from tests.processors.both_paths import both_paths, ordinary, tied
from tests.processors.four_logits import NEVER
from tests.registry import vocabulary

# Probabilities of 0.1, 0.4, 0.3 and 0.2: the square of the highest is 0.16.
CHANCES = [math.log(p) for p in (0.1, 0.4, 0.3, 0.2)]
EVEN = [0.0, 0.0, 0.0, 0.0]

# The relative error of a probability in 32 bits, generously.
DOUBT = 1e-4

dtypes = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])
seeds = st.integers(0, 2**32)
columns = st.sampled_from([1, 2, 5, 40, 1500])
shares = st.one_of(st.sampled_from([0.0, 1e-6, 0.2, 0.5, 1.0]), st.floats(0, 1, width=32))


def check_row(given_: Tensor, out: Tensor, a: float, least: int = 1) -> None:
    """Compare a row with the formula; only tokens within rounding of the threshold may be on either side."""
    logits: NDArray[np.float64] = given_.double().numpy()
    chance = np.exp(logits - logits.max())
    chance /= chance.sum()
    limit = a * chance.max() ** 2
    sure, possible = chance >= limit * (1 + DOUBT), chance >= limit * (1 - DOUBT)
    best = np.argsort(-logits, kind="stable")[:least]
    kept = (out > NEVER).numpy()
    there = logits > -np.inf
    enough = np.zeros_like(kept)
    enough[best] = True
    assert (kept >= ((sure | enough) & there)).all()
    assert (kept <= ((possible | enough) & there)).all()
    assert torch.equal(out[torch.from_numpy(kept)], given_[torch.from_numpy(kept)])
    if least == 1:
        # Equal logits share their fate.
        assert not set(logits[kept]) & set(logits[there & ~kept])


@pytest.mark.parametrize(
    ("processor", "logits", "kept"),
    [
        (lk.TopA(1), CHANCES, [1, 2, 3]),
        (lk.TopA(0.7), CHANCES, [1, 2, 3]),
        (lk.TopA(0.6), CHANCES, [0, 1, 2, 3]),
        (lk.TopA(0), CHANCES, [0, 1, 2, 3]),
        (lk.TopA(1), EVEN, [0, 1, 2, 3]),
        (lk.TopA(1), [0.0, 9.0, 0.0, NEVER], [1]),
        (lk.TopA(1e-9), [0.0, 9.0, 0.0, NEVER], [0, 1, 2]),
        (lk.TopA(1, min_tokens_to_keep=2), [0.0, 9.0, 0.0, 0.0], [0, 1]),
        (lk.TopA(1, min_tokens_to_keep=9), CHANCES, [0, 1, 2, 3]),
        (lk.TopA(1), [NEVER, NEVER, -5.0, NEVER], [2]),
        (lk.TopA(1), [NEVER] * 4, []),
        (lk.TopA(1), [2.0], [0]),
    ],
)
def test_what_is_kept(processor: lk.TopA, logits: list[float], kept: list[int]) -> None:
    given_ = torch.tensor([logits])
    out = both_paths(processor, given_)[0]
    assert (out > NEVER).nonzero().flatten().tolist() == kept
    assert torch.equal(out[kept], given_[0, kept])


@given(seeds, dtypes, columns, shares, st.sampled_from([1, 2, 7]))
def test_it_is_the_formula(seed: int, dtype: torch.dtype, width: int, a: float, least: int) -> None:
    for logits in (ordinary(seed, width).to(dtype), tied(seed, width).to(dtype)):
        for before, after in zip(logits, both_paths(lk.TopA(a, least), logits), strict=True):
            check_row(before, after, a, least)


@given(seeds, dtypes, columns, st.lists(st.tuples(shares, st.sampled_from([1, 3])), min_size=3, max_size=3))
def test_rows_may_differ(seed: int, dtype: torch.dtype, width: int, values: list[tuple[float, int]]) -> None:
    logits, context = ordinary(seed, width).to(dtype), lk.Context.of([[]], width)
    each = [lk.TopA(*value) for value in values]
    state = lk.concatenate([one.init_state(context) for one in each])
    wanted = torch.cat([both_paths(one, row[None]) for one, row in zip(each, logits, strict=True)])
    rows = lk.Context.of([[]] * 3, width)
    for path in (nullcontext(), mock.patch.object(torch.compiler, "is_compiling", return_value=True)):
        with path:
            assert same_bits(each[0].process_logits(state, logits.clone(), rows)[1], wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("processor", [lk.TopA(1), lk.TopA(1e-30), lk.TopA(0.3, min_tokens_to_keep=12)], ids=repr)
def test_odd_logits_leave_something_and_no_nan(processor: lk.TopA, dtype: torch.dtype) -> None:
    most = torch.finfo(dtype).max
    rows = [
        [math.nan] * 11 + [1.0],
        [math.inf] * 12,
        [most, -most, 0.0, *[1.0] * 9],
        [-most] * 12,
        [math.inf, 1.0, math.inf, NEVER, math.nan, 0.0, *[2.0] * 6],
    ]
    out = both_paths(processor, torch.tensor(rows, dtype=dtype))
    assert not out.isnan().any()
    assert (out > NEVER).any(1).all()
    assert out[-1].isposinf().tolist() == [True, False, True, *[False] * 9]


def test_zero_leaves_every_bit() -> None:
    logits = ordinary(0, 50)
    logits[1, 7] = math.nan
    assert both_paths(lk.TopA(0), logits).view(torch.int32).equal(logits.view(torch.int32))


def test_it_follows_top_k_and_precedes_the_other_truncations() -> None:
    config = {"min_p": 0.1, "top_p": 0.9, "typical_p": 0.9, "top_n_sigma": 1.0, "top_a": 0.3, "top_k": 5, "xtc": 0.5}
    made = lk.from_config(config, vocabulary())
    assert isinstance(made, lk.Chain)
    assert [type(part).__name__ for part in made.processors][:3] == ["TopK", "TopA", "TopNSigma"]
    assert lk.from_config({"top_a": 0.3}, vocabulary()) == lk.TopA(0.3)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: lk.TopA(1.1), r"a is 1.1; allowed are numbers from 0 to 1 \(0 changes nothing\)"),
        (lambda: lk.TopA(-0.1), "a is -0.1"),
        (lambda: lk.TopA(math.nan), "a is nan"),
        (lambda: lk.TopA(0.5, 0), "min_tokens_to_keep is 0; allowed are integers from 1"),
        (lambda: lk.chain(lk.TopA(0.5), lk.BanTokens([1])), "BanTokens after the truncation TopA"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        make()


@pytest.mark.parametrize(("field", "value"), [("a", -0.5), ("a", 1.5), ("keep", 0)])
def test_a_corrupt_state_is_refused(field: str, value: float, tmp_path: Path) -> None:
    processor = lk.TopA(1, 2)
    state = processor.init_state(lk.Context.of([[]], 4))
    state = state._replace(**{field: torch.full_like(getattr(state, field), value)})
    lk.save_state(tmp_path / "state", state, processor)
    with pytest.raises(StateFileError, match=f"{field} is not"):
        lk.load_state(tmp_path / "state", processor)
