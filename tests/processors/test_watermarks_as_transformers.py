"""Watermarks and their detectors, compared with those of transformers."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.watermarks.green_lists import best_candidates, is_first
from tests.batches import tensor_path
from tests.processors.four_logits import NEVER

hf: Any = pytest.importorskip("transformers")

COLUMNS = 60


def texts(seed: int, rows: int, length: int, columns: int = COLUMNS) -> Tensor:
    return torch.randint(0, columns, (rows, length), generator=torch.Generator().manual_seed(seed))


def logits(seed: int, rows: int, columns: int = COLUMNS) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    drawn = torch.randn(rows, columns, generator=rng) * 4
    return drawn.masked_fill(torch.rand(rows, columns, generator=rng) < 0.2, NEVER)


def processed(processor: lk.Processor[Any], ids: Tensor, given_: Tensor, prompt: int = 2) -> Tensor:
    """Process logits after a prompt of some tokens and the others as output, on both paths."""
    context = lk.Context.of(ids[:, :prompt].tolist(), given_.shape[1])
    state = processor.advance(processor.init_state(context), ids[:, prompt:])
    out = processor.process_logits(state, given_.clone(), context)[1]
    with tensor_path():
        assert torch.equal(processor.process_logits(state, given_.clone(), context)[1], out)
    return out


@pytest.mark.parametrize("scheme", ["lefthash", "selfhash"])
@given(
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.sampled_from([0.1, 0.25, 0.5, 0.9]),
    st.integers(0, 2**40),
    st.sampled_from([41, 60, 300]),
)
@settings(max_examples=30, deadline=None)
def test_kgw_has_the_bits_of_transformers(
    scheme: str, seed: int, width: int, ratio: float, key: int, columns: int
) -> None:
    ids, given_ = texts(seed, 2, 7, columns), logits(seed, 2, columns)
    theirs = hf.WatermarkLogitsProcessor(columns, "cpu", ratio, 2.5, key, scheme, width)
    try:
        wanted = theirs(ids, given_.clone())
    except IndexError:  # transformers fails if none of the 40 best tokens is green
        assume(False)
    assert torch.equal(processed(lk.KgwWatermark(key, ratio, 2.5, width, scheme), ids, given_), wanted)


@pytest.mark.parametrize("scheme", ["lefthash", "selfhash"])
def test_kgw_leaves_a_row_that_is_too_short(scheme: str) -> None:
    ids, given_ = texts(1, 2, 3), logits(1, 2)
    theirs = hf.WatermarkLogitsProcessor(COLUMNS, "cpu", 0.5, 2.5, 7, scheme, 4)
    assert torch.equal(theirs(ids, given_), given_)
    assert torch.equal(processed(lk.KgwWatermark(7, 0.5, 2.5, 4, scheme), ids, given_), given_)


@given(st.integers(0, 2**64 - 1), st.integers(2, 400), st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_one_id_is_followed_through_the_permutation(seed: int, columns: int, ratio: float) -> None:
    count = int(columns * ratio)
    first = torch.randperm(columns, generator=torch.Generator().manual_seed(seed))[:count].tolist()
    tokens = random.Random(seed).sample(range(columns), min(columns, 20))
    assert [is_first(seed, token, columns, count) for token in tokens] == [token in first for token in tokens]


def test_of_tied_candidates_those_count_that_a_sort_puts_first() -> None:
    line = torch.zeros(100)
    line[50:60] = 1
    assert best_candidates(line).tolist() == line.sort(descending=True).indices[:40].tolist()


@pytest.mark.parametrize("count_repeats", [False, True])
@pytest.mark.parametrize(("scheme", "width"), [("lefthash", 1), ("lefthash", 2), ("selfhash", 1), ("selfhash", 3)])
def test_kgw_is_detected_as_in_transformers(scheme: str, width: int, count_repeats: bool) -> None:
    ids = texts(3, 3, 60, 12)
    config = hf.AutoConfig.for_model("gpt2", vocab_size=12, bos_token_id=99)
    settings_ = {
        "greenlist_ratio": 0.25,
        "bias": 2.0,
        "hashing_key": 15485863,
        "seeding_scheme": scheme,
        "context_width": width,
    }
    theirs = hf.WatermarkDetector(config, "cpu", settings_, ignore_repeated_ngrams=not count_repeats)
    wanted = theirs(ids, return_dict=True)
    watermark = lk.KgwWatermark(15485863, 0.25, 2.0, width, scheme)
    found = lk.watermarks.detect(watermark, ids, vocabulary_size=12, count_repeats=count_repeats)
    assert found.scored.tolist() == wanted.num_tokens_scored.tolist()
    assert found.score.tolist() == wanted.num_green_tokens.tolist()
    assert found.z.tolist() == pytest.approx(wanted.z_score.tolist(), rel=1e-9)


@given(
    st.integers(0, 2**32),
    st.integers(2, 5),
    st.integers(1, 12),
    st.sampled_from([1, 3, 1024]),
    st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_synthid_follows_transformers_step_by_step(seed: int, ngram: int, depth: int, memory: int, skip: bool) -> None:
    keys = texts(seed, 1, depth, 2**40)[0].tolist()
    theirs = hf.SynthIDTextWatermarkLogitsProcessor(ngram, keys, 2**16, 5, memory, "cpu", skip)
    ours = lk.SynthIdWatermark(keys, ngram, memory, sampling_table_seed=5, skip_first_ngram_calls=skip)
    # A few tokens, so that contexts occur again.
    ids = texts(seed, 2, 14, 2)
    changed = 0
    for length in range(2, ids.shape[1] + 1):
        given_ = logits(seed + length, 2)
        wanted = theirs(ids[:, :length], given_.clone())
        found = processed(ours, ids[:, :length], given_)
        finite = given_ > NEVER
        assert torch.equal(found > NEVER, finite)
        for row in range(2):
            if torch.equal(wanted[row], given_[row]):
                assert torch.equal(found[row], given_[row])
            else:
                changed += 1
                torch.testing.assert_close(found[row].exp(), wanted[row].exp(), atol=2e-6, rtol=1e-5)
    assert changed


def test_synthid_has_the_bits_and_the_masks_of_transformers() -> None:
    keys = [654, 400, 836, 2**62 + 1]
    theirs = hf.SynthIDTextWatermarkLogitsProcessor(3, keys, 2**16, 0, 1024, "cpu")
    ids = texts(4, 2, 50, 4)
    bits, masks = theirs.compute_g_values(ids), theirs.compute_context_repetition_mask(ids)
    for row, (found, first) in enumerate(lk.watermarks.synthid_bits(lk.SynthIdWatermark(keys, 3), ids)):
        assert torch.equal(found, bits[row])
        assert torch.equal(first, masks[row].bool())
    eos = theirs.compute_eos_token_mask(ids, 3)[:, 2:]
    for row, (found, _) in enumerate(lk.watermarks.synthid_bits(lk.SynthIdWatermark(keys, 3), ids, eos_ids=[3])):
        assert len(found) == int(eos[row].sum())
        assert torch.equal(found, bits[row, : len(found)])
