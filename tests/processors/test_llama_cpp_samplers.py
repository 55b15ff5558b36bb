"""Top-n-sigma, XTC, min-p and temperature against llama.cpp's own samplers, which need no model.

llama.cpp adds up in 32 bits, one number after the other, so that what is within rounding of a cut is left out here.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from tests.processors.both_paths import both_paths, ordinary, tied

llama_cpp: Any = pytest.importorskip("llama_cpp", reason="needs llama.cpp: pip install 'logitkit[llama-cpp]'")

NEVER = -math.inf

seeds = st.integers(0, 2**32)
columns = st.sampled_from([1, 2, 5, 40, 1500])
logits_of = st.sampled_from([ordinary, tied])


def llama(sampler: Any, logits: Tensor) -> Tensor:
    """Apply a sampler to rows of logits; what it drops is at -inf."""
    out = torch.full_like(logits, NEVER)
    for row, line in enumerate(logits.tolist()):
        data = (llama_cpp.llama_token_data * len(line))(*((i, x, 0.0) for i, x in enumerate(line)))
        tokens = llama_cpp.llama_token_data_array(data, len(line), -1, False)
        llama_cpp.llama_sampler_apply(sampler, ctypes.byref(tokens))
        # After truncation, the candidates may begin after the start of the data.
        for i in range(tokens.size):
            out[row, tokens.data[i].id] = tokens.data[i].logit
    llama_cpp.llama_sampler_free(sampler)
    return out


@given(seeds, columns, logits_of, st.sampled_from([0.0, -1.0, 0.05, 0.5, 1.0, 2.3, 9.0]))
def test_top_n_sigma(seed: int, width: int, make: Any, n: float) -> None:
    logits = make(seed, width)
    for line in logits:
        some = line[line > NEVER].double()
        cut = some.max() - n * some.std(correction=0)
        assume(n <= 0 or width == 1 or ((some - cut).abs() > 1e-4).all())
    theirs = llama(llama_cpp.llama_sampler_init_top_n_sigma(n), logits)
    assert torch.equal(both_paths(lk.TopNSigma(n), logits), theirs)


@given(seeds, columns, logits_of, st.sampled_from([0.0005, 0.01, 0.1, 0.2, 0.4, 0.5, 0.7]))
def test_xtc(seed: int, width: int, make: Any, threshold: float) -> None:
    logits = make(seed, width)
    assume(((logits.softmax(1) - threshold).abs() > 1e-6).all())
    theirs = llama(llama_cpp.llama_sampler_init_xtc(1.0, threshold, 1, 0), logits)
    ours = both_paths(lk.Xtc(1, threshold), logits)
    # Which of equal ones stays is left to an unstable sort.
    assert torch.equal(ours.sort(1).values, theirs.sort(1).values)
    assert make is tied or torch.equal(ours, theirs)


def test_xtc_that_never_happens() -> None:
    logits = ordinary(0, 40)
    assert torch.equal(llama(llama_cpp.llama_sampler_init_xtc(0.0, 0.1, 1, 0), logits), logits)
    assert torch.equal(both_paths(lk.Xtc(0, 0.1), logits), logits)


@given(seeds, columns, logits_of, st.sampled_from([0.001, 0.05, 0.3, 0.9]))
def test_min_p(seed: int, width: int, make: Any, p: float) -> None:
    logits = make(seed, width)
    cut = logits.amax(1, keepdim=True) + math.log(p)
    assume(((logits - cut).abs() > 1e-4).all())
    assert torch.equal(both_paths(lk.MinP(p), logits), llama(llama_cpp.llama_sampler_init_min_p(p, 1), logits))


@given(seeds, columns, logits_of, st.sampled_from([0.0, 0.3, 0.7, 1.0, 1.5]))
def test_temperature(seed: int, width: int, make: Any, t: float) -> None:
    logits = make(seed, width)
    assert torch.equal(both_paths(lk.Temperature(t), logits), llama(llama_cpp.llama_sampler_init_temp(t), logits))
