"""Processors of NVIDIA's logits-processor-zoo: by hand, and against plain loops over tokens, written from its documentation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError, StateFileError
from tests.processors.four_logits import NEVER, on_either_path
from tests.processors.test_lengths_and_prompts import check, random_logits

ids = st.sampled_from([0, 1, 2, 3, 11])
texts = st.lists(ids, max_size=9)
numbers = st.sampled_from([-3.5, -0.5, 0.0, 0.25, 2.0])
seeds = st.integers(0, 2**32)


def cited(prompt: Sequence[int], output: Sequence[int], bonus: float, more: float, eos: Sequence[int]) -> Any:
    """Return a loop over the tokens of a prompt, as a processor of transformers."""

    def process(input_ids: Tensor, scores: Tensor) -> Tensor:
        for token in {*prompt, *eos}:
            scores[0, token] += bonus
        for token in {after for before, after in itertools.pairwise(prompt) if output and before == output[-1]}:
            scores[0, token] += more
        return scores

    return process


def lengthened(output: Sequence[int], boost: float, eos: Sequence[int], power: int, ends: Sequence[int]) -> Any:
    """Return the formula of lengths, as a processor of transformers."""

    def process(input_ids: Tensor, scores: Tensor) -> Tensor:
        if not {*eos} & {*output} and (not ends or (output and output[-1] in ends)):
            for token in {*eos}:
                scores[0, token] += boost * len(output) ** power / 10**power
        return scores

    return process


@pytest.mark.parametrize(
    ("processor", "prompt", "output", "wanted"),
    [
        (lk.CiteFromPrompt(1.0), [0, 0, 2], [], [2.0, -2.0, 1.5, 4.0]),
        (lk.CiteFromPrompt(1.0, eos_ids=[3]), [0], [1], [2.0, -2.0, 0.5, 5.0]),
        # After 0 came 1 and 2, each of which gets the second number once.
        (lk.CiteFromPrompt(0.0, 8.0), [0, 1, 0, 2, 0, 1], [0], [1.0, 6.0, 8.5, 4.0]),
        # The last token of the prompt is not one of the output.
        (lk.CiteFromPrompt(0.0, 8.0), [0, 1, 0], [], [1.0, -2.0, 0.5, 4.0]),
        (lk.LengthControl(0.5, [3]), [1, 1], [0] * 20, [1.0, -2.0, 0.5, 6.0]),
        (lk.LengthControl(-0.5, [3], power=1), [], [0] * 20, [1.0, -2.0, 0.5, 3.0]),
        (lk.LengthControl(0.5, [3]), [3], [3] + [0] * 19, [1.0, -2.0, 0.5, 4.0]),
        (lk.LengthControl(0.5, [3], sentence_ends=[2]), [], [0] * 20, [1.0, -2.0, 0.5, 4.0]),
        (lk.LengthControl(0.5, [3], sentence_ends=[2]), [], [0] * 19 + [2], [1.0, -2.0, 0.5, 6.0]),
    ],
)
def test_by_hand(processor: Any, prompt: list[int], output: list[int], wanted: list[float]) -> None:
    assert on_either_path(processor, output, [1.0, -2.0, 0.5, 4.0], prompt) == wanted


def test_a_ban_stays_one() -> None:
    assert on_either_path(lk.CiteFromPrompt(5.0), [], [NEVER, 1.0], [0]) == [NEVER, 1.0]
    assert on_either_path(lk.LengthControl(5.0, [0]), [1], [NEVER, 1.0]) == [NEVER, 1.0]


@given(texts, texts, numbers, numbers, st.lists(ids, max_size=2), seeds)
def test_citations_are_a_loop_over_the_prompt(
    prompt: list[int], output: list[int], bonus: float, more: float, eos: list[int], seed: int
) -> None:
    wanted = cited(prompt, output, bonus, more, eos)
    check(lk.CiteFromPrompt(bonus, more, eos), wanted, prompt, output, random_logits(seed))


@given(
    texts, texts, numbers, st.lists(ids, min_size=1, max_size=2), st.integers(0, 4), st.lists(ids, max_size=2), seeds
)
def test_lengths_are_the_formula(
    prompt: list[int], output: list[int], boost: float, eos: list[int], power: int, ends: list[int], seed: int
) -> None:
    wanted = lengthened(output, boost, eos, power, ends)
    check(lk.LengthControl(boost, eos, power, ends), wanted, prompt, output, random_logits(seed))


def test_a_long_text_stays_finite() -> None:
    processor, context = lk.LengthControl(1e4, [0], power=16), lk.Context.of([[]], 2)
    state = processor.advance(processor.init_state(context), torch.ones(1, 5000, dtype=torch.int64))
    assert processor.process_logits(state, torch.zeros(1, 2), context)[1].isfinite().all()


def test_a_configuration_may_leave_out_eos() -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
    assert lk.from_config({"cite_from_prompt": 2.0}, vocabulary) == lk.CiteFromPrompt(2.0, eos_ids=(2,))
    assert lk.from_config({"length_control": 0.5}, vocabulary) == lk.LengthControl(0.5, (2,))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: lk.CiteFromPrompt(math.inf), "bonus is inf; allowed are numbers from -10000 to 10000"),
        (lambda: lk.CiteFromPrompt(1, math.nan), "next_bonus is nan"),
        (lambda: lk.LengthControl(1, []), "eos_ids is empty; give at least one token id"),
        (lambda: lk.LengthControl(1, [1], 17), "power is 17; allowed are integers from 0 to 16"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        make()


@pytest.mark.parametrize(
    ("processor", "field", "value", "problem"),
    [
        (lk.CiteFromPrompt(1.0), "prompt", -2, "a token id is below -1"),
        (lk.CiteFromPrompt(1.0), "bonus", math.nan, "bonus is not"),
        (lk.LengthControl(1.0, [1]), "power", 17, "power is not"),
        (lk.LengthControl(1.0, [1]), "length", -1, "length is not"),
    ],
)
def test_a_corrupt_state_is_refused(processor: Any, field: str, value: float, problem: str, tmp_path: Path) -> None:
    state = processor.init_state(lk.Context.of([[1, 2]], 4))
    state = state._replace(**{field: torch.full_like(getattr(state, field), value)})
    lk.save_state(tmp_path / "state", state, processor)
    with pytest.raises(StateFileError, match=problem):
        lk.load_state(tmp_path / "state", processor)
