"""No run of n tokens twice: by hand, and against transformers and plain Python."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import NoRepeatNGramLogitsProcessor

import logitkit as lk
from logitkit.errors import ConfigurationError, VocabularyError
from tests.processors.both_paths import tensors_only
from tests.processors.four_logits import NEVER, after

COLUMNS = 5
LOGITS = [4.0, -4.0, 0.5, 0.0]

# Few tokens, so that runs occur again.
tokens = st.integers(0, 2)


@pytest.mark.parametrize(
    ("processor", "prompt", "output", "wanted"),
    [
        (lk.NoRepeatNGram(2), [], [0, 1, 0], [4.0, NEVER, 0.5, 0.0]),
        (lk.NoRepeatNGram(2), [0, 1], [2, 0], [4.0, NEVER, 0.5, 0.0]),
        # A run may overlap itself, and lead from the prompt into the output.
        (lk.NoRepeatNGram(2), [3], [3], [4.0, -4.0, 0.5, NEVER]),
        (lk.NoRepeatNGram(3), [3, 3], [3], [4.0, -4.0, 0.5, NEVER]),
        (lk.NoRepeatNGram(3), [], [0, 1, 2, 3, 0, 1], [4.0, -4.0, NEVER, 0.0]),
        (lk.NoRepeatNGram(3), [], [0, 1, 2, 3, 1], LOGITS),
        # Several runs begin with the last tokens.
        (lk.NoRepeatNGram(2), [], [0, 1, 0, 2, 0], [4.0, NEVER, NEVER, 0.0]),
        # Of one token: nothing is said twice.
        (lk.NoRepeatNGram(1), [0], [1], [NEVER, NEVER, 0.5, 0.0]),
        (lk.NoRepeatNGram(1), [], [], LOGITS),
        (lk.NoRepeatNGram(0), [0, 0, 0], [0, 0], LOGITS),
        (lk.NoRepeatNGram(4), [0, 0, 0], [], LOGITS),
        (lk.NoRepeatNGram(4), [0, 0, 0, 0], [], [NEVER, -4.0, 0.5, 0.0]),
        # Only what is within the window, or the output.
        (lk.NoRepeatNGram(2, window=3), [], [0, 1, 0], [4.0, NEVER, 0.5, 0.0]),
        (lk.NoRepeatNGram(2, window=3), [], [0, 1, 2, 0], LOGITS),
        (lk.NoRepeatNGram(1, window=1), [0, 1], [], [4.0, NEVER, 0.5, 0.0]),
        (lk.NoRepeatNGram(2, include_prompt=False), [0, 1], [0], LOGITS),
        (lk.NoRepeatNGram(2, include_prompt=False), [0], [1, 0], LOGITS),
        (lk.NoRepeatNGram(2), [0, 1], [-1, 0, -1], [4.0, NEVER, 0.5, 0.0]),
    ],
)
def test_by_hand(processor: lk.NoRepeatNGram, prompt: list[int], output: list[int], wanted: list[float]) -> None:
    assert after(processor, output, LOGITS, prompt) == wanted


@given(st.data(), st.sampled_from([torch.float32, torch.float16, torch.bfloat16]), st.integers(1, 5))
def test_transformers_gives_the_same_bits(data: st.DataObject, dtype: torch.dtype, n: int) -> None:
    rows, width, more = (data.draw(st.integers(*bounds)) for bounds in ((1, 3), (1, 8), (0, 12)))
    prompt, output = (
        torch.tensor(data.draw(st.lists(tokens, min_size=rows * size, max_size=rows * size))).reshape(rows, size).long()
        for size in (width, more)
    )
    logits = torch.randn(rows, COLUMNS, generator=torch.Generator().manual_seed(more)).to(dtype)
    theirs = NoRepeatNGramLogitsProcessor(n)(torch.cat([prompt, output], 1), logits.clone())
    ours, context = lk.NoRepeatNGram(n), lk.Context.of(prompt.tolist(), COLUMNS)
    state = ours.advance(ours.init_state(context), output)
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    for out in (ours.process_logits(state, logits.clone(), context)[1], tensors_only(ours, state, logits)):
        assert out.view(bits).equal(theirs.view(bits))


def reference(one: lk.NoRepeatNGram, prompt: list[int], output: list[int]) -> set[int]:
    """The tokens whose n-gram is among those said."""
    heard = [t for t in (prompt if one.include_prompt else []) + output if t != -1]
    heard = heard if one.window is None else heard[-one.window :]
    grams = {tuple(heard[i : i + one.n]) for i in range(len(heard) - one.n + 1)}
    # For n = 1, the prefix is empty.
    prefix = heard[len(heard) - one.n + 1 :] if len(heard) >= one.n > 0 else [None]
    return {t for t in range(COLUMNS) if (*prefix, t) in grams}


@st.composite
def configurations(draw: st.DrawFn) -> lk.NoRepeatNGram:
    n = draw(st.integers(0, 5))
    return lk.NoRepeatNGram(n, draw(st.none() | st.integers(max(n, 1), 9)), draw(st.booleans()))


@given(st.data())
def test_rows_of_all_configurations_in_one_batch(data: st.DataObject) -> None:
    some = data.draw(st.lists(configurations(), min_size=1, max_size=4))
    gaps = st.lists(tokens | st.just(-1), max_size=10)
    prompts = [data.draw(gaps) for _ in some]
    length = data.draw(st.integers(0, 14))
    output = [(data.draw(gaps) + [-1] * length)[:length] for _ in some]
    contexts = [
        dataclasses.replace(lk.Context.of([[]], COLUMNS), prompt=torch.tensor([prompt], dtype=torch.int64))
        for prompt in prompts
    ]
    state: Any = lk.concatenate([one.init_state(c) for one, c in zip(some, contexts, strict=True)])
    context = lk.concatenate_context(contexts)
    new = torch.tensor(output, dtype=torch.int64).reshape(len(some), length)
    for piece in new.split(data.draw(st.integers(1, 5)), 1) if length else ():
        state = some[0].advance(state, piece)
    for out in (
        some[-1].process_logits(state, torch.zeros(len(some), COLUMNS), context)[1],
        tensors_only(some[-1], state, torch.zeros(len(some), COLUMNS)),
    ):
        banned = [set(row.isneginf().nonzero().flatten().tolist()) for row in out]
        assert banned == [reference(*three) for three in zip(some, prompts, output, strict=True)]


def test_a_long_run_is_found() -> None:
    run = [i * i % 97 for i in range(256)]
    assert after(lk.NoRepeatNGram(256), run[:-1], [0.0] * 100, [*run, 98])[run[-1]] == NEVER
    assert NEVER not in after(lk.NoRepeatNGram(256), run[1:-1], [0.0] * 100, [*run, 98])


def test_where_a_constraint_leaves_only_what_was_said_the_row_ends() -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
    for both in (
        lk.chain(lk.NoRepeatNGram(1), lk.Regex("a{3}", vocabulary)),
        lk.chain(lk.Regex("a{3}", vocabulary), lk.NoRepeatNGram(1)),
    ):
        assert after(both, [0], [1.0, 1.0, 1.0]) == [NEVER, NEVER, 0.0]


@pytest.mark.parametrize("n", [-1, 257, 2.0, "2", None, True])
def test_a_length_that_makes_no_sense_is_refused(n: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"n is .*; allowed are integers from 0 to 256"):
        lk.NoRepeatNGram(n)


def test_a_window_without_room_for_a_run_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"window is 3, too short for a run of n=4 tokens; give at least 4"):
        lk.NoRepeatNGram(4, window=3)
    with pytest.raises(
        ConfigurationError, match=r"window is 0; allowed are integers from 1 to 16777216 \(None counts all"
    ):
        lk.NoRepeatNGram(2, window=0)


def test_a_token_that_the_logits_do_not_have() -> None:
    with pytest.raises(VocabularyError, match="row 0 has the token 9, but the logits have 4 columns"):
        after(lk.NoRepeatNGram(2), [3, 9, 3], LOGITS)
    processor, context = lk.NoRepeatNGram(2), lk.Context.of([[3, 9, 3, 1, 3]], 4)
    assert tensors_only(processor, processor.init_state(context), torch.zeros(1, 4)).tolist() == [[0, NEVER, 0, 0]]


def test_an_impossible_length_of_a_file_is_seen() -> None:
    state = lk.NoRepeatNGram(3).init_state(lk.Context.of([[]], 4))
    assert state.problem() is None
    assert state._replace(n=torch.tensor([2])).problem() is None
    assert state._replace(n=torch.tensor([4])).problem() == "n is not an integer from 0 to 3"
