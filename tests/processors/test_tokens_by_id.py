"""Processors that name tokens by their ids: by hand, and against transformers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    ForcedBOSTokenLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    SequenceBiasLogitsProcessor,
    SuppressTokensLogitsProcessor,
)

import logitkit as lk
from logitkit.errors import BatchMismatch, ConfigurationError, StateFileError, VocabularyError
from tests.processors.both_paths import both_paths
from tests.processors.four_logits import NEVER, after

LOGITS = [1.0, -2.0, 0.5, 4.0]
COLUMNS = 20

dtypes = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])

# Arguments of types that no type checker lets pass.
ANY: Any = lk


@pytest.mark.parametrize(
    ("processor", "output", "wanted"),
    [
        (lk.LogitBias({0: 2.0, 3: -1.5}), [], [3.0, -2.0, 0.5, 2.5]),
        (lk.LogitBias({1: 100}), [2, 2], [1.0, 98.0, 0.5, 4.0]),
        (lk.LogitBias({1: 0.0}), [], LOGITS),
        (lk.LogitBias({}), [], LOGITS),
        (lk.AllowTokens([2, 0]), [], [1.0, NEVER, 0.5, NEVER]),
        (lk.AllowTokens([0, 0]), [1], [1.0, NEVER, NEVER, NEVER]),
        (lk.AllowTokens(range(4)), [], LOGITS),
        (lk.BanTokens([2, 0]), [], [NEVER, -2.0, NEVER, 4.0]),
        (lk.BanTokens([]), [], LOGITS),
        (lk.MinNewTokens(2, [3]), [], [1.0, -2.0, 0.5, NEVER]),
        (lk.MinNewTokens(2, [3]), [0], [1.0, -2.0, 0.5, NEVER]),
        (lk.MinNewTokens(2, [3]), [-1, 0, -1], [1.0, -2.0, 0.5, NEVER]),
        (lk.MinNewTokens(2, [3]), [0, 0], LOGITS),
        (lk.MinNewTokens(2, [3]), [0, -1, 0, 0], LOGITS),
        (lk.MinNewTokens(1, [3, 0]), [], [NEVER, -2.0, 0.5, NEVER]),
        (lk.MinNewTokens(1, 0), [], [NEVER, -2.0, 0.5, 4.0]),
        (lk.MinNewTokens(0, [3]), [], LOGITS),
        # Token 0 is a token.
        (lk.ForcedTokens([0, 3]), [], [1.0, NEVER, NEVER, NEVER]),
        (lk.ForcedTokens([3, 0]), [3], [1.0, NEVER, NEVER, NEVER]),
        (lk.ForcedTokens([3, 0]), [3, 0], LOGITS),
        (lk.ForcedTokens([3, 0]), [3, -1], [1.0, NEVER, NEVER, NEVER]),
        # A draft that left what is forced goes on by position.
        (lk.ForcedTokens([3, 0]), [1], [1.0, NEVER, NEVER, NEVER]),
        (lk.ForcedTokens([]), [], LOGITS),
        (lk.ForcedTokens([[1, 2]]), [1], [NEVER, NEVER, 0.5, NEVER]),
    ],
)
def test_by_hand(processor: lk.Processor[Any], output: list[int], wanted: list[float]) -> None:
    assert after(processor, output, LOGITS, [3, 3, 0]) == wanted


def test_a_forced_token_that_is_masked_is_at_zero() -> None:
    for value in (NEVER, math.inf, math.nan):
        assert after(lk.ForcedTokens([1]), [], [1.0, value, 2.0, 3.0]) == [NEVER, 0.0, NEVER, NEVER]


def test_eos_inside_forced_tokens_does_not_finish_the_row() -> None:
    assert after(lk.ForcedTokens([3, 3, 1]), [3, 3], LOGITS) == [NEVER, -2.0, NEVER, NEVER]


@pytest.mark.parametrize(
    "processor", [lk.MinNewTokens(2, [3]), lk.ForcedTokens([3, 0])], ids=lambda p: type(p).__name__
)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (0, 0)])
def test_a_batch_of_no_rows_goes_on(processor: Any, shape: tuple[int, ...]) -> None:
    state = processor.init_state(lk.Context.of([], vocabulary_size=4))
    after_none = processor.advance(state, torch.zeros(shape, dtype=torch.int64))
    assert [field.shape for field in after_none] == [field.shape for field in state]


def test_forced_lists_of_uneven_lengths() -> None:
    forced = lk.ForcedTokens([[1, 0], [3], []])
    context = lk.Context.of([[0], [], [2]], 4)
    state = forced.init_state(context)
    legal = []
    for _ in range(3):
        out = forced.process_logits(state, torch.ones(3, 4), context)[1]
        legal.append([(row != NEVER).nonzero().flatten().tolist() for row in out])
        state = forced.advance(state, torch.tensor([0, 0, 0]))
    free = [0, 1, 2, 3]
    assert legal == [[[1], [3], free], [[0], free, free], [free, free, free]]


def test_forced_lists_are_one_for_each_row() -> None:
    forced = lk.ForcedTokens([[1, 0], [3]])
    assert forced.batch_size == 2
    with pytest.raises(BatchMismatch, match="2 lists of ids for a batch of 3 rows"):
        forced.init_state(lk.Context.of([[], [], []], 4))
    with pytest.raises(ConfigurationError, match="not both"):
        ANY.ForcedTokens([[1], 2])


def test_a_state_of_forced_lists_is_saved_and_loaded(tmp_path: Path) -> None:
    forced = lk.chain(lk.BanTokens([2]), lk.ForcedTokens([[1, 0], [3]]))
    context = lk.Context.of([[], []], 4)
    state = forced.advance(forced.init_state(context), torch.tensor([1, 3]))
    lk.save_state(tmp_path / "state", state, forced)
    loaded = lk.load_state(tmp_path / "state", forced)
    out = forced.process_logits(loaded, torch.ones(2, 4), context)[1]
    assert out.tolist() == [[1, NEVER, NEVER, NEVER], [1, 1, NEVER, 1]]


def test_a_mask_after_forced_tokens_wins_and_the_chain_ends() -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", None, b"c"], eos_ids=[2])
    assert after(lk.chain(lk.Regex("a", vocabulary), lk.ForcedTokens([1])), [], LOGITS) == [NEVER, 0.0, NEVER, NEVER]
    assert after(lk.chain(lk.ForcedTokens([1]), lk.Regex("a", vocabulary)), [], LOGITS) == [NEVER, NEVER, 0.0, NEVER]


def test_a_complete_text_that_is_too_short_ends_in_a_chain() -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", None, b"c"], eos_ids=[2])
    both = lk.chain(lk.Regex("a", vocabulary), lk.MinNewTokens(5, vocabulary.eos_ids))
    assert after(both, [0], LOGITS) == [NEVER, NEVER, 0.0, NEVER]


@given(st.lists(st.integers(0, COLUMNS - 1), min_size=1, max_size=6), dtypes, st.integers(0, 2**32))
def test_bans_are_those_of_transformers(ids: list[int], dtype: torch.dtype, seed: int) -> None:
    logits = torch.randn(2, COLUMNS, generator=torch.Generator().manual_seed(seed)).to(dtype)
    theirs = SuppressTokensLogitsProcessor(ids)(torch.zeros(2, 1, dtype=torch.int64), logits.clone())
    assert torch.equal(both_paths(lk.BanTokens(ids), logits), theirs)


@given(st.integers(0, 4), st.integers(0, 6), st.lists(st.integers(0, COLUMNS - 1), min_size=1, max_size=3), dtypes)
def test_ends_are_held_back_as_in_transformers(n: int, length: int, eos: list[int], dtype: torch.dtype) -> None:
    logits = torch.randn(2, COLUMNS, generator=torch.Generator().manual_seed(0)).to(dtype)
    ids = torch.zeros(2, 3 + length, dtype=torch.int64)
    theirs = MinNewTokensLengthLogitsProcessor(3, n, eos)(ids, logits.clone())
    processor, context = lk.MinNewTokens(n, eos), lk.Context.of(ids[:, :3].tolist(), COLUMNS)
    state = processor.advance(processor.init_state(context), ids[:, 3:])
    assert torch.equal(processor.process_logits(state, logits.clone(), context)[1], theirs)


@given(st.dictionaries(st.integers(0, COLUMNS - 1), st.floats(-100, 100, width=32), min_size=1), st.integers(0, 2**32))
def test_biases_are_those_of_transformers(bias: dict[int, float], seed: int) -> None:
    logits = torch.randn(2, COLUMNS, generator=torch.Generator().manual_seed(seed)) * 9
    theirs = SequenceBiasLogitsProcessor([[[i], float(b)] for i, b in bias.items()])(
        torch.zeros(2, 1, dtype=torch.int64), logits.clone()
    )
    assert torch.equal(both_paths(lk.LogitBias(bias), logits), theirs)


def test_the_first_forced_token_is_that_of_transformers() -> None:
    """But for its logit, which transformers sets to 0, where it is kept here."""
    logits = torch.randn(2, COLUMNS)
    theirs = ForcedBOSTokenLogitsProcessor(7)(torch.zeros(2, 1, dtype=torch.int64), logits.clone())
    ours = both_paths(lk.ForcedTokens([7]), logits)
    assert torch.equal(ours == NEVER, theirs == NEVER)
    assert torch.equal(ours[:, 7], logits[:, 7])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_bias_makes_nothing_infinite(dtype: torch.dtype) -> None:
    most = torch.finfo(dtype).max
    logits = torch.tensor([[most, -most, math.inf, -math.inf, 0.0, -0.0]], dtype=dtype)
    up, down = lk.LogitBias(dict.fromkeys(range(6), 1e4)), lk.LogitBias(dict.fromkeys(range(6), -1e4))
    hundred = torch.tensor(1e4, dtype=dtype).item()
    assert both_paths(up, logits)[0, [0, 2, 3, 4, 5]].tolist() == [most, math.inf, -math.inf, hundred, hundred]
    assert both_paths(down, logits)[0, [1, 2, 3, 4, 5]].tolist() == [-most, math.inf, -math.inf, -hundred, -hundred]


def test_a_bias_of_zero_keeps_the_sign_of_zero() -> None:
    out = both_paths(lk.LogitBias({0: 0.0, 1: 1.0}), torch.tensor([[-0.0, 0.0]]))
    assert math.copysign(1, out[0, 0].item()) == -1


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: ANY.BanTokens([1, -1]), "ids has -1; allowed are token ids, integers from 0 to 2147483647"),
        (lambda: ANY.BanTokens([1.0]), "ids has 1.0"),
        (lambda: ANY.BanTokens("12"), "ids is the single text '12'; give a list"),
        (lambda: ANY.BanTokens(5), "ids is 5; give a list"),
        (lambda: ANY.AllowTokens([True]), "ids has True"),
        (lambda: ANY.AllowTokens([]), "ids is empty; give at least one"),
        (lambda: ANY.AllowTokens([2**31]), "ids has 2147483648"),
        (lambda: ANY.MinNewTokens(-1, [0]), "n is -1; allowed are integers from 0"),
        (lambda: ANY.MinNewTokens(1.5, [0]), "n is 1.5"),
        (lambda: ANY.MinNewTokens(1, []), "eos_ids is empty"),
        (lambda: ANY.MinNewTokens(1, None), "eos_ids is None"),
        (lambda: ANY.ForcedTokens(3), "ids is 3"),
        (lambda: ANY.ForcedTokens([3, None]), "ids has None"),
        (lambda: ANY.LogitBias([1]), "bias is .*; give a mapping"),
        (lambda: ANY.LogitBias({"1": 1.0}), "bias has '1'"),
        (lambda: ANY.LogitBias({1: math.nan}), "bias of token 1 is nan; allowed are numbers from -10000 to 10000"),
        (lambda: ANY.LogitBias({1: -math.inf}), "to ban a token, use BanTokens"),
        (lambda: ANY.LogitBias({1: 10001}), "bias of token 1 is 10001"),
        (lambda: ANY.LogitBias({1: 10**400}), "bias of token 1"),
        (lambda: ANY.LogitBias({1: True}), "bias of token 1 is True"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        make()


@pytest.mark.parametrize(
    "processor",
    [
        lk.BanTokens([1, 9]),
        lk.AllowTokens([9]),
        lk.LogitBias({9: 1.0, 2: 1.0}),
        lk.MinNewTokens(1, [9, 0]),
        lk.ForcedTokens([9]),
    ],
    ids=lambda p: type(p).__name__,
)
def test_an_id_that_the_logits_do_not_have_is_reported(processor: lk.Processor[Any]) -> None:
    with pytest.raises(VocabularyError, match="row 0 has the token 9, but the logits have 4 columns"):
        after(processor, [], LOGITS)
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        after(processor, [], LOGITS)


@pytest.mark.parametrize("ids", [np.array([3, 1]), torch.tensor([3, 1]), (i for i in (3, 1)), {3, 1}])
def test_ids_may_come_in_any_form(ids: Sequence[int]) -> None:
    one = lk.BanTokens(ids)
    assert one == lk.BanTokens([1, 3])
    assert [type(i) for i in one.ids] == [int, int]


def test_configurations_are_hashed_and_compared() -> None:
    assert lk.LogitBias({1: 2.0, 0: 1}) == lk.LogitBias({0: 1.0, 1: 2})
    assert hash(lk.LogitBias({1: 2.0, 0: 1})) == hash(lk.LogitBias({0: 1.0, 1: 2}))
    assert lk.AllowTokens([2, 1, 1]) == lk.AllowTokens((1, 2))
    assert lk.ForcedTokens([2, 1]) != lk.ForcedTokens([1, 2])


@pytest.mark.parametrize(
    ("processor", "change", "problem"),
    [
        (lk.BanTokens([1, 3]), {"ids": torch.tensor([[3, 1]], dtype=torch.int32)}, "ascending order"),
        (lk.AllowTokens([1]), {"ids": torch.tensor([[-2]], dtype=torch.int32)}, "below -1"),
        (lk.AllowTokens([1]), {"ids": torch.tensor([[-1, 5]], dtype=torch.int32)}, "ascending order"),
        (lk.MinNewTokens(1, [3]), {"left": torch.tensor([-2])}, "left is not an integer from -1"),
        (lk.ForcedTokens([3, 2]), {"position": torch.tensor([-2])}, "position is not an integer from -1"),
        (lk.ForcedTokens([3, 2]), {"ids": torch.tensor([[-1, 2]], dtype=torch.int32)}, "comes after -1"),
        (lk.LogitBias({3: 1.0}), {"bias": torch.tensor([[math.nan]])}, "bias is not a number"),
        (lk.LogitBias({3: 1.0}), {"bias": torch.tensor([[1.0, 2.0]])}, "ids, but"),
    ],
)
def test_a_corrupt_state_is_refused(
    processor: Any, change: dict[str, torch.Tensor], problem: str, tmp_path: Path
) -> None:
    state = processor.init_state(lk.Context.of([[]], 4))
    lk.save_state(tmp_path / "state", state._replace(**change), processor)
    with pytest.raises(StateFileError, match=problem):
        lk.load_state(tmp_path / "state", processor)
