"""Truncations at a probability or a share of the entropy: against transformers, against their formulas, and by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor
from transformers import EpsilonLogitsWarper, EtaLogitsWarper, TopHLogitsWarper

import logitkit as lk
from logitkit.errors import ConfigurationError, StateFileError
from tests.batches import same_bits
from tests.processors.both_paths import both_paths, host, ordinary, tied
from tests.processors.four_logits import NEVER

IDS: Any = torch.zeros(3, 1, dtype=torch.int64)

# Probabilities of 0.1, 0.4, 0.3 and 0.2: squares of 0.01, 0.16, 0.09 and 0.04, which add up to 0.3. The entropy is 1.28.
CHANCES = [math.log(p) for p in (0.1, 0.4, 0.3, 0.2)]
EVEN = [0.0, 0.0, 0.0, 0.0]

# The relative error of a sum in 32 bits, generously.
DOUBT = 1e-4

seeds = st.integers(0, 2**32)
columns = st.sampled_from([1, 2, 5, 40, 1500])
least = st.sampled_from([1, 2, 7])


@pytest.mark.parametrize(
    ("processor", "logits", "kept"),
    [
        (lk.EpsilonCutoff(0.25), CHANCES, [1, 2]),
        (lk.EpsilonCutoff(0.15), CHANCES, [1, 2, 3]),
        (lk.EpsilonCutoff(0.9), CHANCES, [1]),
        (lk.EpsilonCutoff(0.9, min_tokens_to_keep=3), CHANCES, [1, 2, 3]),
        # All that tie with the last of them stay.
        (lk.EpsilonCutoff(1, min_tokens_to_keep=2), [0.0, 5.0, 0.0, 0.0], [0, 1, 2, 3]),
        (lk.EpsilonCutoff(1), EVEN, [0, 1, 2, 3]),
        # The square root of 0.25, times e to the -1.28, is 0.139.
        (lk.EtaCutoff(0.25), CHANCES, [1, 2, 3]),
        (lk.EtaCutoff(0.12), CHANCES, [0, 1, 2, 3]),
        (lk.EtaCutoff(0.05), CHANCES, [0, 1, 2, 3]),
        # Epsilon is less than 1, which is e to the -0, so the threshold is epsilon.
        (lk.EtaCutoff(0.01), [0.0, 9.0, 0.0, NEVER], [1]),
        (lk.EtaCutoff(1, min_tokens_to_keep=3), CHANCES, [1, 2, 3]),
        (lk.EtaCutoff(1), EVEN, [0, 1, 2, 3]),
        # The parts of the entropy are 0.230, 0.367, 0.361 and 0.322 of 1.280.
        (lk.TopH(0.2), CHANCES, [1]),
        (lk.TopH(0.5), CHANCES, [1]),
        (lk.TopH(0.6), CHANCES, [1, 2]),
        (lk.TopH(0.85), CHANCES, [1, 2, 3]),
        (lk.TopH(1), CHANCES, [0, 1, 2, 3]),
        # Among the best two, 4/7 and 3/7, the parts are 0.320 and 0.363.
        (lk.TopH(0.9, candidates=2), CHANCES, [1]),
        (lk.TopH(1, candidates=2), CHANCES, [1, 2]),
        (lk.TopH(0.5), EVEN, [0, 1]),
        (lk.PLess(), CHANCES, [1, 2]),
        # 4 times 0.3, less 1, is 0.2, divided by 3: 0.067.
        (lk.PLess(relaxed=True), CHANCES, [0, 1, 2, 3]),
        (lk.PLess(), EVEN, [0, 1, 2, 3]),
        (lk.PLess(), [0.0, 9.0, 0.0, NEVER], [1]),
        # 0.4, 0.3, 0.2 and 0.1 fall in a straight line.
        (lk.TailFree(0.5), [math.log(p) for p in (0.05, 0.6, 0.3, 0.05)], [1]),
        (lk.TailFree(0.5), EVEN, [0, 1, 2, 3]),
        (lk.TailFree(0), [0.0, 5.0], [0, 1]),
    ],
)
def test_what_is_kept(processor: lk.Processor[Any], logits: list[float], kept: list[int]) -> None:
    given_ = torch.tensor([logits])
    out = both_paths(processor, given_)[0]
    assert (out > NEVER).nonzero().flatten().tolist() == kept
    assert torch.equal(out[kept], given_[0, kept])


@given(seeds, columns, st.sampled_from([1e-9, 3e-4, 0.01, 0.2, 0.9]), least)
def test_epsilon_cutoff_is_that_of_transformers(seed: int, width: int, epsilon: float, keep: int) -> None:
    warper = EpsilonLogitsWarper(epsilon, min_tokens_to_keep=keep)
    for logits in (ordinary(seed, width), tied(seed, width)):
        assert same_bits(both_paths(lk.EpsilonCutoff(epsilon, keep), logits), warper(IDS, logits.clone()))


@given(seeds, columns, st.sampled_from([1e-9, 3e-4, 0.01, 0.2, 0.9]), least)
def test_eta_cutoff_is_that_of_transformers(seed: int, width: int, epsilon: float, keep: int) -> None:
    warper = EtaLogitsWarper(epsilon, min_tokens_to_keep=keep)
    for logits in (ordinary(seed, width), tied(seed, width)):
        chances = logits.double().softmax(1)
        entropy = -torch.where(chances > 0, chances * chances.log(), 0.0).sum(1, keepdim=True)
        eta = (math.sqrt(epsilon) * (-entropy).exp()).clamp(max=epsilon)
        # A token at the threshold depends on the last bits of the entropy.
        assume(((chances / eta - 1).abs() > DOUBT).all())
        assert same_bits(both_paths(lk.EtaCutoff(epsilon, keep), logits), warper(IDS, logits.clone()))


@given(seeds, columns, st.sampled_from([0.05, 0.2, 0.4, 0.7, 0.95]))
def test_top_h_is_that_of_transformers(seed: int, width: int, h: float) -> None:
    logits = ordinary(seed, width)
    assume(not _near_the_share(logits, h))
    assert same_bits(both_paths(lk.TopH(h), logits), TopHLogitsWarper(h)(IDS, logits.clone()))
    logits = tied(seed, width)
    assume(not _near_the_share(logits, h))
    # Which of equal ones stay is left to torch.topk; how many do is not.
    ours, theirs = both_paths(lk.TopH(h), logits), TopHLogitsWarper(h)(IDS, logits.clone())
    assert same_bits(ours.sort(1).values, theirs.sort(1).values)


def _near_the_share(logits: Tensor, h: float) -> bool:
    """Whether rounding could move the cut of a row."""
    chances = logits.double().topk(min(100, logits.shape[1]), dim=1).values.softmax(1)
    sums = torch.where(chances > 0, -chances * chances.log(), 0.0).cumsum(1)
    return bool(((sums - h * sums[:, -1:]).abs() < DOUBT * sums[:, -1:]).any())


def test_a_real_width_is_that_of_transformers() -> None:
    logits = torch.randn(2, 131_072, generator=torch.Generator().manual_seed(0)) * 3
    logits[1, ::3] = NEVER
    for processor, warper in (
        (lk.EpsilonCutoff(3e-4), EpsilonLogitsWarper(3e-4)),
        (lk.EtaCutoff(3e-3), EtaLogitsWarper(3e-3)),
        (lk.TopH(0.4), TopHLogitsWarper(0.4)),
    ):
        assert same_bits(host(processor, logits), warper(IDS, logits.clone())), processor


@given(seeds, st.sampled_from([1, 2, 3, 5, 40, 1500]), st.booleans())
def test_p_less_is_the_formula_of_the_paper(seed: int, width: int, relaxed: bool) -> None:
    for logits in (ordinary(seed, width), tied(seed, width)):
        for before, after in zip(logits, both_paths(lk.PLess(relaxed=relaxed), logits), strict=True):
            chance = before.double().softmax(0).numpy()
            # As in the paper: less the mean of the products of different tokens.
            threshold = (chance**2).sum()
            if relaxed and width > 1:
                threshold -= (np.outer(chance, chance).sum() - (chance**2).sum()) / (width - 1)
            kept = (after > NEVER).numpy()
            assert kept[(chance >= threshold * (1 + DOUBT)) & (chance > 0)].all()
            assert not kept[chance < threshold * (1 - DOUBT) - 1e-7].any()
            assert kept[chance.argmax()]


@given(seeds, st.sampled_from([1, 2, 3, 4, 5, 40, 1500]), st.sampled_from([0.0, 0.3, 0.8, 0.95, 0.999]), least)
def test_tail_free_is_a_loop_over_the_sorted_tokens(seed: int, width: int, z: float, keep: int) -> None:
    for logits in (ordinary(seed, width), tied(seed, width)):
        for before, after in zip(logits, both_paths(lk.TailFree(z, keep), logits), strict=True):
            falling = np.sort(before.softmax(0).double().numpy())[::-1]
            curvature = [abs(falling[i] - 2 * falling[i + 1] + falling[i + 2]) for i in range(width - 2)]
            count, running, unsure = width, 0.0, False
            for i, bend in enumerate(curvature):
                running += bend
                unsure |= abs(running - z * sum(curvature)) < 1e-9
                if running > z * sum(curvature) and i >= keep:
                    count = i
                    break
            assume(not unsure or z == 0)
            last = np.sort(before.numpy())[::-1][count - 1]
            wanted = torch.where(before >= last, before, NEVER)
            assert torch.equal(after, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("processor", "warper"),
    [
        (lk.EpsilonCutoff(0.01), EpsilonLogitsWarper(0.01)),
        (lk.EtaCutoff(0.01), EtaLogitsWarper(0.01)),
        (lk.TopH(0.4), TopHLogitsWarper(0.4)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_sixteen_bits_are_calculated_with_in_32(processor: Any, warper: Any, dtype: torch.dtype) -> None:
    logits = ordinary(1, 3000).to(dtype)
    assert same_bits(both_paths(processor, logits).float().sort(1).values, warper(IDS, logits.float()).sort(1).values)


def test_the_order_is_that_of_transformers() -> None:
    config = {"eta_cutoff": 0.1, "p_less": True, "tail_free": 0.9, "top_k": 5, "epsilon_cutoff": 0.1, "top_h": 0.4}
    made: Any = lk.from_config(config, lk.Vocabulary([b"a", None], eos_ids=[1]))
    names = [type(part).__name__ for part in made.processors]
    assert names == ["TopH", "TopK", "TailFree", "EpsilonCutoff", "EtaCutoff", "PLess"]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: lk.EpsilonCutoff(1.5), r"epsilon is 1.5; allowed are numbers from 0 to 1 \(0 changes nothing\)"),
        (lambda: lk.EpsilonCutoff(0.1, 0), "min_tokens_to_keep is 0; allowed are integers from 1"),
        (lambda: lk.EtaCutoff(-0.1), "epsilon is -0.1"),
        (lambda: lk.TopH(math.nan), "h is nan"),
        (lambda: lk.TopH(0.5, 0), "candidates is 0; allowed are integers from 1"),
        (lambda: lk.TailFree(2), r"z is 2; allowed are numbers from 0 to 1 \(1 changes nothing\)"),
        (lambda: lk.PLess(1), "enabled is 1"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        make()


@pytest.mark.parametrize(
    ("processor", "field", "value"),
    [
        (lk.EpsilonCutoff(0.1, 2), "keep", 0),
        (lk.EtaCutoff(0.1), "epsilon", -1.0),
        (lk.TopH(0.1), "candidates", 0),
        (lk.TailFree(0.1), "z", 1.5),
    ],
)
def test_a_corrupt_state_is_refused(processor: Any, field: str, value: float, tmp_path: Path) -> None:
    state = processor.init_state(lk.Context.of([[]], 4))
    state = state._replace(**{field: torch.full_like(getattr(state, field), value)})
    lk.save_state(tmp_path / "state", state, processor)
    with pytest.raises(StateFileError, match=f"{field} is not"):
        lk.load_state(tmp_path / "state", processor)
