"""Tokens that occurred become less likely, each time or once: by hand, and against plain Python and vLLM's formula."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.protocol.state import problem_of
from tests.processors.both_paths import tensors_only
from tests.processors.four_logits import after

COLUMNS = 9
LOGITS = [4.0, -4.0, 0.5, 0.0]

Counted = lk.FrequencyPenalty | lk.PresencePenalty

dtypes = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])
tokens = st.integers(0, COLUMNS - 1)
penalties = st.sampled_from([-100.0, -2.0, -0.1, 0.0, 0.1, 0.7, 1.1, 2.0, 100.0])
kinds = pytest.mark.parametrize("kind", [lk.FrequencyPenalty, lk.PresencePenalty])


@pytest.mark.parametrize(
    ("processor", "prompt", "output", "wanted"),
    [
        (lk.FrequencyPenalty(0.5), [], [0, 1, 1], [3.5, -5.0, 0.5, 0.0]),
        (lk.PresencePenalty(0.5), [], [0, 1, 1], [3.5, -4.5, 0.5, 0.0]),
        (lk.FrequencyPenalty(-0.5), [], [3, 3, 2], [4.0, -4.0, 1.0, 1.0]),
        (lk.PresencePenalty(-0.5), [], [3, 3, 2], [4.0, -4.0, 1.0, 0.5]),
        # The prompt counts only where that is asked for.
        (lk.FrequencyPenalty(0.5), [0, 0, 1], [1], [4.0, -4.5, 0.5, 0.0]),
        (lk.PresencePenalty(0.5), [0, 0, 1], [1], [4.0, -4.5, 0.5, 0.0]),
        (lk.FrequencyPenalty(0.5, include_prompt=True), [0, 0, 1], [1], [3.0, -5.0, 0.5, 0.0]),
        (lk.PresencePenalty(0.5, include_prompt=True), [0, 0, 1], [1], [3.5, -4.5, 0.5, 0.0]),
        # Windows: the last ones count.
        (lk.FrequencyPenalty(0.5, window=2), [], [1, 1, 1, 0, 1], [3.5, -4.5, 0.5, 0.0]),
        (lk.FrequencyPenalty(0.5, window=4, include_prompt=True), [1, 1, 1], [0, 1], [3.5, -5.5, 0.5, 0.0]),
        (lk.FrequencyPenalty(0.5, window=4), [1, 1, 1], [0, 1], [3.5, -4.5, 0.5, 0.0]),
        (lk.PresencePenalty(0.5, window=1), [], [1, 2], [4.0, -4.0, 0.0, 0.0]),
        # Without output, nothing changes; -1 is not a token.
        (lk.FrequencyPenalty(0.5), [0, 1], [], LOGITS),
        (lk.PresencePenalty(0.0), [], [0, 1], LOGITS),
        (lk.FrequencyPenalty(0.5), [], [-1, 0, -1, 0], [3.0, -4.0, 0.5, 0.0]),
    ],
)
def test_by_hand(processor: Counted, prompt: list[int], output: list[int], wanted: list[float]) -> None:
    assert after(processor, output, LOGITS, prompt) == wanted


@kinds
def test_infinite_logits_keep_their_value(kind: type[Counted]) -> None:
    assert after(kind(2.0), [0, 1], [math.inf, -math.inf, 1.0, 2.0]) == [math.inf, -math.inf, 1.0, 2.0]


@kinds
@pytest.mark.parametrize("penalty", [0.0, -0.0])
def test_a_penalty_of_nothing_leaves_every_bit(kind: type[Counted], penalty: float) -> None:
    processor, context = kind(penalty, include_prompt=True), lk.Context.of([[0, 1, 1]], 3)
    logits = torch.tensor([[-0.0, 0.0, 1e-45]])
    state = processor.init_state(context)
    for out in both_ways(processor, state, logits, context):
        assert out.view(torch.int32).equal(logits.view(torch.int32))


@kinds
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("penalty", [100.0, -100.0])
def test_a_finite_logit_stays_finite(kind: type[Counted], dtype: torch.dtype, penalty: float) -> None:
    most = torch.finfo(dtype).max
    processor, context = kind(penalty), lk.Context.of([[]], 4)
    state = processor.advance(processor.init_state(context), torch.tensor([[0, 1, 1, 3] * 200]))
    logits = torch.tensor([[most, -most, 1.0, 0.0]], dtype=dtype)
    for out in both_ways(processor, state, logits, context):
        assert out.isfinite().all()
        assert out[0, 2] == 1.0


def both_ways(processor: Counted, state: Any, logits: Tensor, context: lk.Context) -> list[Tensor]:
    """Return what the host path and the tensor path give."""
    return [
        processor.process_logits(state, logits.clone(), context)[1],
        tensors_only(processor, state, logits),
    ]


@given(st.data(), dtypes)
def test_formula_of_vllm_gives_the_same_bits(data: st.DataObject, dtype: torch.dtype) -> None:
    """Counts of the output in a counter for the whole vocabulary, times the penalties of the rows."""
    rows, length = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 20))
    output = torch.tensor(data.draw(st.lists(tokens, min_size=rows * length, max_size=rows * length)))
    output = output.reshape(rows, length).long()
    drawn = data.draw(st.lists(penalties, min_size=rows, max_size=rows))
    logits = (torch.randn(rows, COLUMNS, generator=torch.Generator().manual_seed(length)) * 10).to(dtype)
    counts = torch.zeros(rows, COLUMNS, dtype=torch.int64).scatter_add_(1, output, torch.ones_like(output))
    per_row = torch.tensor(drawn)[:, None]
    for kind, times in ((lk.FrequencyPenalty, counts), (lk.PresencePenalty, counts > 0)):
        theirs = logits.clone()
        theirs -= per_row * times
        contexts = [lk.Context.of([[1, 2]], COLUMNS) for _ in range(rows)]
        processors = [kind(penalty) for penalty in drawn]
        state = lk.concatenate([p.init_state(c) for p, c in zip(processors, contexts, strict=True)])
        state = processors[0].advance(state, output)
        for out in both_ways(processors[0], state, logits, lk.concatenate_context(contexts)):
            assert out.equal(theirs)


@st.composite
def configurations(draw: st.DrawFn) -> Counted:
    arguments = draw(penalties), draw(st.none() | st.integers(1, 9)), draw(st.booleans())
    return lk.FrequencyPenalty(*arguments) if draw(st.booleans()) else lk.PresencePenalty(*arguments)


@given(st.data(), configurations())
def test_plain_python_gives_the_same(data: st.DataObject, one: Counted) -> None:
    """Prompts with gaps; tokens come in pieces."""
    gaps = st.lists(st.integers(0, 3) | st.just(-1), max_size=12)
    prompt, pieces = data.draw(gaps), data.draw(st.lists(gaps, max_size=4))
    context = dataclasses.replace(
        lk.Context.of([[]], COLUMNS), prompt=torch.tensor(prompt, dtype=torch.int64).reshape(1, -1)
    )
    state = one.init_state(context)
    for piece in pieces:
        state = one.advance(state, torch.tensor([piece], dtype=torch.int64).reshape(1, -1))
    heard = [t for t in (prompt if one.include_prompt else []) + [t for piece in pieces for t in piece] if t != -1]
    heard = heard if one.window is None else heard[-one.window :]
    logits = [0.7 * (t - 4) for t in range(COLUMNS)]
    amounts = [
        np.float32(heard.count(t) if isinstance(one, lk.FrequencyPenalty) else t in heard) for t in range(COLUMNS)
    ]
    wanted = [float(np.float32(x) - np.float32(one.penalty) * n) for x, n in zip(logits, amounts, strict=True)]
    assert one.process_logits(state, torch.tensor([logits]), context)[1][0].tolist() == wanted


@kinds
def test_nothing_is_kept_for_the_vocabulary(kind: type[Counted]) -> None:
    state = kind(1.0, window=64).init_state(lk.Context.of([[1, 2]], 131_072))
    assert sum(leaf.nbytes for leaf in (*state.history, state.penalty)) <= 4 * 64 + 32


@kinds
@pytest.mark.parametrize("penalty", [100.5, -101, math.inf, math.nan, "1", None, True, 10**400])
def test_a_penalty_that_makes_no_sense_is_refused(kind: type[Counted], penalty: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"penalty is .*; allowed are numbers from -100 to 100 \(0 changes nothing\)"
    ):
        kind(penalty)


@kinds
@pytest.mark.parametrize("window", [0, -3, 2.0, True, 2**24 + 1])
def test_a_window_that_makes_no_sense_is_refused(kind: type[Counted], window: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"window is .*; allowed are integers from 1 to 16777216 \(None counts all"
    ):
        kind(1.0, window=window)


@kinds
def test_a_token_that_the_logits_do_not_have_is_reported(kind: type[Counted]) -> None:
    with pytest.raises(VocabularyError, match="row 0 has the token 9, but the logits have 4 columns"):
        after(kind(1.1), [3, 9, 1], LOGITS)


@kinds
def test_a_token_that_the_logits_do_not_have_is_harmless_among_tensors(kind: type[Counted]) -> None:
    processor, context = kind(1.0), lk.Context.of([[], []], 4)
    state = processor.advance(processor.init_state(context), torch.tensor([[3, 9], [9, 9]]))
    out = tensors_only(processor, state, torch.zeros(2, 4))
    assert out.tolist() == [[0, 0, 0, -1], [0, 0, 0, 0]]


def test_impossible_penalties_of_a_file_are_seen() -> None:
    state = lk.FrequencyPenalty(1.0).init_state(lk.Context.of([[]], 4))
    assert problem_of(state) is None
    for wrong in (math.nan, math.inf, 101.0):
        assert "-100 to 100" in str(problem_of(state._replace(penalty=torch.tensor([wrong]))))
