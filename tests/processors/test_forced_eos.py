"""EOS at the end of a budget: by hand, against a plain reference and against transformers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import ForcedEOSTokenLogitsProcessor

import logitkit as lk
from logitkit.errors import ConfigurationError, StateFileError, VocabularyError
from logitkit_adapters.transformers import logits_processor
from tests.batches import logits_of, same_bits
from tests.processors.four_logits import AB, NEVER, on_either_path
from tests.registry import EOS, vocabulary

# Arguments of types that no type checker lets pass.
ANY: Any = lk

LOGITS = [1.0, -2.0, 0.5, 4.0]
ONLY = [NEVER, NEVER, NEVER, 4.0]
COLUMNS = 12

dtypes = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])
tokens_or_none = st.lists(st.integers(-1, COLUMNS - 1), min_size=3, max_size=3)


def tensor_path() -> Any:
    return mock.patch.object(torch.compiler, "is_compiling", return_value=True)


def reference(
    logits: Sequence[float], output: Sequence[int], eos_ids: Sequence[int], budget: int | None
) -> list[float]:
    """Return the logits of a row after some output."""
    said = [token for token in output if token >= 0]
    ended = any(token in eos_ids for token in said)
    if not ended and (budget is None or len(said) < budget - 1):
        return list(logits)
    kept = [value if i in eos_ids and not math.isnan(value) else NEVER for i, value in enumerate(logits)]
    if all(value == NEVER for value in kept):
        kept[min(eos_ids)] = 0.0
    return kept


@pytest.mark.parametrize(
    ("processor", "output", "wanted"),
    [
        (lk.ForcedEos([3], 1), [], ONLY),
        (lk.ForcedEos([3], 2), [], LOGITS),
        (lk.ForcedEos([3], 2), [0], ONLY),
        (lk.ForcedEos([3], 3), [0, -1, -1], LOGITS),
        (lk.ForcedEos([3], 3), [-1, 0, -1, 1], ONLY),
        # A draft that goes beyond the budget.
        (lk.ForcedEos([3], 2), [0, 1, 2], ONLY),
        (lk.ForcedEos([3], 9), [3], ONLY),
        (lk.ForcedEos([3], 9), [3, 0], ONLY),
        (lk.ForcedEos([3]), [0, 1, 2], LOGITS),
        (lk.ForcedEos([3]), [0, 3, 2], ONLY),
        (lk.ForcedEos(3, 1), [], ONLY),
        (lk.ForcedEos([3, 1], 1), [], [NEVER, -2.0, NEVER, 4.0]),
    ],
)
def test_by_hand(processor: lk.ForcedEos, output: list[int], wanted: list[float]) -> None:
    assert on_either_path(processor, output, LOGITS, [3, 3, 0]) == wanted


@pytest.mark.parametrize("value", [NEVER, math.nan])
def test_an_eos_that_is_masked_is_at_zero(value: float) -> None:
    assert on_either_path(lk.ForcedEos([3], 1), [], [1.0, 2.0, 3.0, value]) == [NEVER, NEVER, NEVER, 0.0]
    assert on_either_path(lk.ForcedEos([3, 1], 1), [], [1.0, 2.0, 3.0, value]) == [NEVER, 2.0, NEVER, NEVER]
    assert on_either_path(lk.ForcedEos([3, 1], 1), [], [1.0, value, 3.0, value]) == [NEVER, 0.0, NEVER, NEVER]


@given(
    st.lists(
        st.tuples(
            st.sets(st.integers(0, COLUMNS - 1), min_size=1, max_size=3),
            st.one_of(st.none(), st.integers(1, 5)),
            st.integers(0, 5),  # the longest output of the row that the engine allows
            tokens_or_none,
        ),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
    dtypes,
    st.integers(0, 2**32),
)
def test_it_is_the_reference(rows: list[tuple[Any, ...]], limited: bool, dtype: torch.dtype, seed: int) -> None:
    """Rows with their own ids and budgets, in one batch, step by step and at once."""
    processors = [lk.ForcedEos(sorted(ids), budget) for ids, budget, _, _ in rows]
    context = lk.Context.of([[7] * n for n in range(len(rows))], COLUMNS)
    if limited:
        limits = context.prompt_lengths + torch.tensor([room for _, _, room, _ in rows])
        context = replace(context, max_length=int(limits.max()), max_lengths=limits)
    alone = [lk.select_context(context, torch.tensor([n])) for n in range(len(rows))]
    start = lk.concatenate([p.init_state(c) for p, c in zip(processors, alone, strict=True)])
    tokens = torch.tensor([output for *_, output in rows])
    for path in (nullcontext(), tensor_path()):
        with path:
            state = start
            for t in range(4):
                logits = logits_of(seed + t, (len(rows), COLUMNS), dtype)
                out = processors[0].process_logits(state, logits.clone(), context)[1]
                wanted = [
                    reference(line, output[:t], ids, room if budget is None and limited else budget)
                    for line, (ids, budget, room, output) in zip(logits.tolist(), rows, strict=True)
                ]
                assert same_bits(out, torch.tensor(wanted, dtype=dtype))
                at_once = processors[0].advance(start, tokens[:, :t])
                assert all(map(same_bits, at_once, state))
                state = processors[0].advance(state, tokens[:, t]) if t < 3 else state


@given(st.integers(1, 5), st.integers(0, 4), st.sets(st.integers(0, COLUMNS - 1), min_size=1, max_size=3), dtypes)
def test_the_allowed_tokens_are_those_of_transformers(n: int, said: int, eos: set[int], dtype: torch.dtype) -> None:
    """Up to the end of the budget, without EOS before. Its logits are set to 0 there and kept here."""
    said = min(said, n - 1)
    other = min(set(range(COLUMNS)) - eos)
    ids = torch.full((2, 3 + said), other)
    logits = torch.randn(2, COLUMNS, generator=torch.Generator().manual_seed(n)).to(dtype)
    theirs = ForcedEOSTokenLogitsProcessor(3 + n, sorted(eos))(ids, logits.clone())
    contexts = [
        lk.Context.of(ids[:, :3].tolist(), COLUMNS),
        lk.Context.of(ids[:, :3].tolist(), COLUMNS, max_length=3 + n),
    ]
    for processor, context in zip((lk.ForcedEos(sorted(eos), n), lk.ForcedEos(sorted(eos))), contexts, strict=True):
        state = processor.advance(processor.init_state(context), ids[:, 3:])
        ours = processor.process_logits(state, logits.clone(), context)[1]
        assert torch.equal(ours == NEVER, theirs == NEVER)
        assert torch.equal(ours, torch.where(ours == NEVER, NEVER, logits))


def test_a_text_that_a_constraint_would_go_on_ends_in_time() -> None:
    regex, ending = lk.Regex("[ab]{5}", AB), lk.ForcedEos([3], 2)
    for both in (lk.chain(regex, ending), lk.chain(ending, regex)):
        assert on_either_path(both, [], LOGITS) == [1.0, -2.0, 0.5, NEVER]
        assert on_either_path(both, [0], LOGITS) == [NEVER, NEVER, NEVER, 0.0]
        state = both.advance(both.init_state(lk.Context.of([[]], 4)), torch.tensor([0]))
        assert both.conflicts(state).tolist() == [True]
    complete = lk.chain(lk.Regex("[ab]*", AB), lk.ForcedEos([3], 2))
    state = complete.advance(complete.init_state(lk.Context.of([[]], 4)), torch.tensor([0]))
    assert complete.conflicts(state).tolist() == [False]
    banned = lk.chain(lk.ForcedEos([3], 1), lk.BanTokens([3]), lk.MinNewTokens(4, [3]))
    assert on_either_path(banned, [], LOGITS) == [NEVER, NEVER, NEVER, 0.0]


def test_an_eos_that_is_forced_text_does_not_end_the_row() -> None:
    both = lk.chain(lk.ForcedTokens([3, 0]), lk.ForcedEos([3], 4))
    assert on_either_path(both, [3, 0], LOGITS) == LOGITS
    assert on_either_path(both, [3, 0, 1], LOGITS) == ONLY
    assert on_either_path(both, [3, 0, 3], LOGITS) == ONLY


def test_in_a_chain_the_vocabulary_says_what_ends_a_text() -> None:
    # Token 0 is one of the forced ids, and text of the pattern.
    both = lk.chain(lk.Regex("[ab]*", AB), lk.ForcedEos([0, 3], 3))
    for path in (nullcontext, tensor_path):
        with path():
            state = both.advance(both.init_state(lk.Context.of([[]], 4)), torch.tensor([0]))
            assert both.allowed_tokens(state).tolist() == [[True] * 4]


def test_without_a_limit_a_hook_warns() -> None:
    assert lk.ForcedEos([3]).reads_max_length
    with pytest.warns(UserWarning, match=r"ForcedEos .*; pass it to logits_processor\(\.\.\., max_new_tokens=\.\.\.\)"):
        logits_processor(lk.ForcedEos([3]))
    assert lk.chain(lk.ForcedEos([3]), lk.TopK(5)).reads_max_length
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logits_processor(lk.ForcedEos([3]), max_new_tokens=5)
        logits_processor(lk.ForcedEos([3], 5))


def test_a_configuration_may_leave_out_everything() -> None:
    v = vocabulary()
    assert lk.from_config({"forced_eos": {}}, v) == lk.ForcedEos([EOS])
    assert lk.from_config({"forced_eos": None}, v) == lk.ForcedEos([EOS])
    assert lk.from_config({"forced_eos": 9}, v) == lk.ForcedEos([EOS], 9)
    assert lk.from_config({"forced_eos": {"eos_ids": [5, 4]}}, v) == lk.ForcedEos([4, 5])
    last = lk.from_config({"forced_eos": 9, "stop_strings": ["a"], "regex": "a*", "min_new_tokens": 3}, v)
    assert isinstance(last, lk.Chain)
    assert last.processors[-1] == lk.ForcedEos([EOS], 9)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: lk.ForcedEos([3], 0), "max_new_tokens is 0; allowed are integers from 1"),
        (lambda: ANY.ForcedEos([3], 1.5), "max_new_tokens is 1.5"),
        (lambda: ANY.ForcedEos([3], True), "max_new_tokens is True"),
        (lambda: lk.ForcedEos([]), "eos_ids is empty"),
        (lambda: ANY.ForcedEos(None), "eos_ids is None"),
        (lambda: lk.ForcedEos([-1]), "eos_ids has -1"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        make()


def test_an_id_that_the_logits_do_not_have_is_reported() -> None:
    context = lk.Context.of([[]], 4)
    ending = lk.ForcedEos([9], 1)
    with pytest.raises(VocabularyError, match="row 0 has the token 9, but the logits have 4 columns"):
        ending.process_logits(ending.init_state(context), torch.zeros(1, 4), context)
    with tensor_path():
        # Nothing may be read there, but nothing is generated without a limit either.
        out = ending.process_logits(ending.init_state(context), torch.zeros(1, 4), context)[1]
        assert out.isneginf().all()
    free = lk.ForcedEos([9], 2)
    assert free.process_logits(free.init_state(context), torch.zeros(1, 4), context)[1].tolist() == [[0.0] * 4]


def test_a_corrupt_state_is_refused(tmp_path: Path) -> None:
    processor = lk.ForcedEos([1, 3], 2)
    state = processor.init_state(lk.Context.of([[]], 4))
    for change, problem in (
        ({"left": torch.tensor([-2])}, "left is not"),
        ({"eos_ids": state.eos_ids.flip(1)}, "ascending"),
    ):
        lk.save_state(tmp_path / "state", state._replace(**change), processor)
        with pytest.raises(StateFileError, match=problem):
            lk.load_state(tmp_path / "state", processor)
