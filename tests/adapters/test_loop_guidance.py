"""A loop of one's own with guidance: it passes the logits of both passes to `Steps`, and writes what `generate` writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import BatchMismatch, BrokenLogits, ConfigurationError
from logitkit_adapters.loop import Steps
from tests.adapters.demo import model, tokenizer
from tests.adapters.test_loop import EOS, LIBRARIES, NEW, next_logits, prompts, until_end
from tests.batches import tensor_path

NEGATIVE = "The boy"


def negative() -> list[int]:
    found: list[int] = tokenizer()(NEGATIVE).input_ids
    return found


def alone(prompt: list[int], scale: float) -> list[int]:
    """The tokens that transformers writes by its own guidance."""
    ids = torch.tensor([prompt])
    written = model().generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=NEW,
        do_sample=False,
        guidance_scale=scale,
        negative_prompt_ids=torch.tensor([negative()]),
    )
    return until_end(written[0, len(prompt) :].tolist())


def both(rows: list[list[int]], written: list[list[int]], convert: Callable[[Tensor], Any]) -> tuple[Any, Any]:
    """Return the logits of both passes."""
    first = next_logits([[*prompt, *new] for prompt, new in zip(rows, written, strict=True)])
    return convert(first), convert(next_logits([[*negative(), *new] for new in written]))


def step(steps: Steps, rows: list[list[int]], written: list[list[int]], convert: Callable[[Tensor], Any]) -> None:
    """Write one token greedily."""
    first, second = both(rows, written, convert)
    found = steps.process(first, guidance_logits=second)
    tokens = torch.tensor(found if isinstance(found, list) else found.tolist()).reshape(len(rows), -1).argmax(-1)
    steps.commit(tokens.tolist())
    for row, token in zip(written, tokens.tolist(), strict=True):
        row.append(token)


@pytest.mark.parametrize("convert", LIBRARIES)
@pytest.mark.parametrize("scale", [0.0, 1.8])
def test_rows_are_those_of_transformers(convert: Callable[[Tensor], Any], scale: float) -> None:
    rows = prompts()
    steps, written = Steps(lk.Guidance(scale), rows, eos_ids=[EOS]), [list[int]() for _ in rows]
    for _ in range(NEW):
        step(steps, rows, written, convert)
    assert [until_end(row) for row in written] == [alone(row, scale) for row in rows]


def test_rows_with_a_scale_each_that_move_leave_and_enter() -> None:
    waiting = [*zip(prompts(), (3.0, 0.5, 1.0, 2.0), strict=True)]
    wanted = [alone(prompt, scale) for prompt, scale in waiting]
    processors: list[Any] = [lk.Guidance(scale) if scale != 1 else None for _, scale in waiting]
    processors[3] = lk.chain(processors[3], lk.TopK(9), lk.Temperature(0.5))  # in no canonical order
    rows = [prompt for prompt, _ in waiting]
    steps, numbers = Steps(processors[:2], rows[:2]), [0, 1]
    written: list[list[int]] = [[] for _ in rows]
    for count in range(NEW):
        if count == 3:
            steps.add([rows[2], rows[3]], processors[2:])
            numbers += [2, 3]
        if count == 5:
            steps.select([3, 0, 2, 1])
            numbers = [numbers[row] for row in (3, 0, 2, 1)]
        if count == 9:
            steps.select([0, 1, 2])
            numbers = numbers[:3]
        step(steps, [rows[n] for n in numbers], [written[n] for n in numbers], lambda logits: logits.numpy())
    for number, row in enumerate(written):
        length = len(until_end(row))
        assert until_end(row) == wanted[number][:length]
        assert length > 4


def test_the_second_logits_stay() -> None:
    for convert in LIBRARIES[:2]:
        first, second = both(prompts(), [[] for _ in prompts()], convert)
        kept = second.copy() if isinstance(second, np.ndarray) else second.clone()
        Steps(lk.Guidance(2.0), prompts()).process(first, guidance_logits=second)
        assert (second == kept).all()


def test_logits_of_one_pass_are_refused() -> None:
    steps = Steps(lk.chain(lk.Guidance(2), lk.TopK(2)), [[5], [6]])
    one = np.zeros((2, 3), np.float32)
    for given, error, message in (
        (None, ConfigurationError, "Guidance reads the logits of a second pass, and the context has none"),
        (one[:1], BatchMismatch, r"have the shape \[1, 3\], and those of the first \[2, 3\]"),
        (one[:, :2], BatchMismatch, r"have the shape \[2, 2\]"),
        (one.astype(int), ConfigurationError, "floating point"),
        (one * np.nan, BrokenLogits, "for row 0 at step 0: in the second pass, 3 of 3 are NaN"),
    ):
        with pytest.raises(error, match=message):
            steps.process(one.copy(), guidance_logits=given)
    assert np.isfinite(steps.process(one.copy(), guidance_logits=one)).any()


def test_without_guidance_the_second_logits_are_ignored() -> None:
    one = np.array([[1.0, 2.0, 3.0]], np.float32)
    found = Steps(lk.TopK(1), [[5]]).process(one, guidance_logits=one * np.nan)
    assert found.tolist() == [[-np.inf, -np.inf, 3]]


def test_a_broken_second_pass_on_an_accelerator_is_reported_at_the_next_call() -> None:
    steps = Steps(lk.Guidance(2), [[5]], eos_ids=[2])
    with tensor_path():
        found = steps.process(torch.zeros(1, 3), guidance_logits=torch.tensor([[0.0, torch.nan, 0.0]]))
        assert found.tolist() == [[-np.inf, -np.inf, 0]]
        with pytest.raises(BrokenLogits, match="for row 0 at step 0"):
            steps.process(torch.zeros(1, 3), guidance_logits=torch.zeros(1, 3))
