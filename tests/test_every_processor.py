"""Laws for every processor: it runs on random batches in ways that must give the same result."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import VocabularyError
from logitkit.protocol import advance_checked, init_checked, leaves, process_checked
from tests import continue_saved
from tests.batches import (
    COLUMNS,
    DTYPES,
    MAX_LENGTH,
    batches,
    joined,
    logits_of,
    processed,
    run,
    same_bits,
    same_logits,
    same_result,
    same_state,
    step,
    tensor_path,
    with_guidance,
)
from tests.examples import CI, examples
from tests.registry import EOS, ROWS, Row, of_kind, vocabulary

every_row = pytest.mark.parametrize("row", ROWS, ids=str)

few = settings(max_examples=8 if CI else 4)  # of every dtype together


def contents(value: Any) -> Any:
    """Everything that a processor is made of, in a form that compares."""
    if isinstance(value, TokenAutomaton):
        return value.content_key
    if is_dataclass(value):
        return type(value), [contents(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, tuple):
        return [contents(part) for part in value]
    return value


@every_row
@few
@given(st.data())
def test_nothing_given_is_changed_but_logits(row: Row, data: st.DataObject) -> None:
    batch = data.draw(batches(row))
    processor, context = row.processor, batch.context()
    before, context_before = contents(copy.deepcopy(processor)), copy.deepcopy(context)
    state = processor.init_state(context)
    for t in range(batch.steps):
        state_before, tokens = copy.deepcopy(state), batch.tokens[:, t].clone()
        after = processor.advance(state, tokens)
        assert same_state(state, state_before)
        assert torch.equal(tokens, batch.tokens[:, t])
        state_before = copy.deepcopy(after)
        processed(processor, after, batch.logits[t].clone(), context)
        assert same_state(after, state_before)
        state = after
    assert contents(processor) == before
    for name in ("prompt", "prompt_lengths", "lengths"):
        assert torch.equal(getattr(context, name), getattr(context_before, name))


@every_row
@few
@given(st.data())
def test_structure_dtype_and_shape_are_kept(row: Row, data: st.DataObject) -> None:
    batch = data.draw(batches(row))
    context = batch.context()
    state = init_checked(row.processor, context)
    for t in range(batch.steps):
        state = advance_checked(row.processor, state, batch.tokens[:, t])
        seen = with_guidance(row.processor, context, batch.logits[t])
        logits = process_checked(row.processor, state, batch.logits[t].clone(), seen)
        assert logits.dtype == batch.logits.dtype
        assert logits.shape == batch.logits[t].shape
        assert all(leaf.shape[0] == context.batch_size for leaf in leaves(state))


@every_row
def test_there_may_be_no_rows(row: Row) -> None:
    """As in an engine whose last sequence has just ended."""
    context = lk.Context.of([[3]], COLUMNS)
    none = torch.zeros(0, dtype=torch.int64)
    state = lk.select(row.processor.init_state(context), none)
    context = lk.select_context(context, none)
    for tokens in (none, none[:, None], torch.zeros((0, 0), dtype=torch.int64)):
        state = row.processor.advance(state, tokens)
    assert processed(row.processor, state, torch.zeros(0, COLUMNS), context)[1].shape == (0, COLUMNS)
    with tensor_path():
        state = row.processor.advance(state, none)
        assert processed(row.processor, state, torch.zeros(0, COLUMNS), context)[1].shape == (0, COLUMNS)


@every_row
@few
@given(st.data())
def test_rows_may_be_permuted_and_repeated(row: Row, data: st.DataObject) -> None:
    batch = data.draw(batches(row))
    order = data.draw(st.lists(st.integers(0, len(batch.prompts) - 1), min_size=1, max_size=6))
    rows = torch.tensor(order)
    whole = run(row.processor, batch)
    picked = run(row.processor, batch.select(order))
    assert same_state(lk.select(whole.state, rows), picked.state)
    assert all(same_bits(a[rows], b) for a, b in zip(whole.logits, picked.logits, strict=True))
    # And in the middle of a run, as beams do.
    half = batch.steps // 2
    early = run(row.processor, replace(batch, tokens=batch.tokens[:, :half], logits=batch.logits[: half + 1]))
    context = batch.context()
    for t in range(half):
        context = step(context, batch.tokens[:, t])
    late = batch.select(order)
    late = replace(late, tokens=late.tokens[:, half:], logits=late.logits[half:])
    reordered = run(row.processor, late, lk.select(early.state, rows), lk.select_context(context, rows))
    assert same_state(reordered.state, picked.state)
    assert same_logits(reordered.logits, picked.logits[half:])


@every_row
@few
@given(st.data())
def test_configurations_of_a_kind_share_a_batch(row: Row, data: st.DataObject) -> None:
    """Prompts, windows and automata differ; each row is as it would be alone."""
    steps, dtype = data.draw(st.integers(0, 7)), data.draw(st.sampled_from(DTYPES))
    others = data.draw(st.lists(st.sampled_from(of_kind(row.kind)), max_size=3))
    parts = [(one, data.draw(batches(one, dtype, steps=steps))) for one in (row, *others)]
    together, state, context = joined(parts)
    by_rows = run(row.processor, together, state, context)
    with tensor_path():
        assert same_result(run(row.processor, together, state, context), by_rows)
    first = 0
    for one, batch in parts:
        alone = run(one.processor, batch)
        rows = torch.arange(first, first + len(batch.prompts))
        first += len(batch.prompts)
        assert same_state(lk.select(by_rows.state, rows), alone.state)
        assert same_logits([logits[rows] for logits in by_rows.logits], alone.logits)


@every_row
@few
@given(st.data())
def test_a_run_may_be_split(row: Row, data: st.DataObject) -> None:
    batch = data.draw(batches(row))
    start = row.processor.init_state(batch.context())
    one_by_one = run(row.processor, batch).state
    at_once = row.processor.advance(start, batch.tokens)
    assert same_state(one_by_one, at_once)
    cuts = sorted(data.draw(st.lists(st.integers(0, batch.steps), max_size=3)))
    pieces = start
    for begin, end in zip([0, *cuts], [*cuts, batch.steps], strict=True):
        pieces = row.processor.advance(pieces, batch.tokens[:, begin:end])
    assert same_state(pieces, at_once)


@every_row
@few
@given(st.data())
def test_no_token_changes_nothing(row: Row, data: st.DataObject) -> None:
    batch = data.draw(batches(row))
    state = run(row.processor, batch).state
    for none in (torch.full_like(batch.tokens[:, :0].sum(1), -1), torch.full((len(batch.prompts), 3), -1)):
        assert same_state(row.processor.advance(state, none), state)
    # Where the gaps are does not matter either.
    gaps = torch.stack([batch.tokens, torch.full_like(batch.tokens, -1)], 2).flatten(1)
    start = row.processor.init_state(batch.context())
    assert same_state(row.processor.advance(start, gaps), row.processor.advance(start, batch.tokens))


@every_row
@few
@given(st.data())
def test_a_replay_gives_the_same(row: Row, data: st.DataObject) -> None:
    batch = data.draw(batches(row))
    assert same_result(run(row.processor, batch), run(row.make(vocabulary()), batch))


@every_row
@few
@given(st.data())
def test_a_saved_state_continues(row: Row, data: st.DataObject) -> None:
    batch = data.draw(batches(row))
    half = data.draw(st.integers(0, batch.steps))
    early = replace(batch, tokens=batch.tokens[:, :half], logits=batch.logits[: half + 1])
    late = replace(batch, tokens=batch.tokens[:, half:], logits=batch.logits[half:])
    state, context = run(row.processor, early).state, batch.context()
    for t in range(half):
        context = step(context, batch.tokens[:, t])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        lk.save_state(path, state, row.processor)
        loaded = lk.load_state(path, row.make(vocabulary()))
        assert list(Path(folder).iterdir()) == [path]
    assert same_state(loaded, state)
    assert same_result(run(row.processor, late, loaded, context), run(row.processor, late, state, context))


def test_saved_states_continue_in_another_process(tmp_path: Path) -> None:
    """There, other automata have the slots of the registry that they have here."""
    wanted = {}
    for number, row in enumerate(ROWS):
        batch = continue_saved.batch(row)
        whole = run(row.processor, batch)
        state = row.processor.advance(row.processor.init_state(batch.context()), batch.tokens[:, :2])
        lk.save_state(tmp_path / f"{number}.state", state, row.processor)
        wanted[row.name] = torch.stack(whole.logits[2:])
    subprocess.run(
        [sys.executable, "-m", "tests.continue_saved", str(tmp_path)],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    found = torch.load(tmp_path / "logits.pt")
    assert found.keys() == wanted.keys()
    for name, logits in wanted.items():
        assert same_bits(found[name], logits), name


@every_row
@settings(max_examples=examples(120))
@given(st.data())
def test_logits_stay_sound(row: Row, data: st.DataObject) -> None:
    """No NaN, no overflow, and nothing comes back from -inf but all that is left: a dead row's EOS, or a forced token."""
    batch = data.draw(batches(row))
    for given_, out in zip(batch.logits, run(row.processor, batch).logits, strict=True):
        assert not out.isnan().any()
        assert not (out.isposinf() & ~given_.isposinf()).any()
        masked = out.isneginf() & ~given_.isneginf()
        assert row.masks or not masked.any()
        raised = given_.isneginf() & ~out.isneginf()
        for r in raised.any(1).nonzero().flatten().tolist():
            assert row.masks
            assert out[r].isneginf().sum() == COLUMNS - 1
            assert out[r, EOS if row.sized else out[r].argmax()] == 0


@every_row
@few
@given(st.data())
def test_columns_after_the_vocabulary_are_masked(row: Row, data: st.DataObject) -> None:
    """Where there is a vocabulary; where there is none, they are columns like others."""
    batch = data.draw(batches(row))
    wide = torch.cat([batch.logits, logits_of(0, (*batch.logits.shape[:2], 5), batch.logits.dtype)], 2)
    narrow, wider = run(row.processor, batch), run(row.processor, replace(batch, logits=wide))
    with tensor_path():
        assert same_result(run(row.processor, replace(batch, logits=wide)), wider)
    for a, b in zip(narrow.logits, wider.logits, strict=True):
        assert row.compares or same_bits(a, b[:, :COLUMNS])
        assert not (row.masks and row.sized) or b[:, COLUMNS:].isneginf().all()


@pytest.mark.parametrize("row", [row for row in ROWS if row.masks and row.sized], ids=str)
@pytest.mark.parametrize("tensors", [False, True], ids=["rows", "tensors"])
def test_logits_narrower_than_the_vocabulary_are_refused(row: Row, tensors: bool) -> None:
    context = lk.Context.of([[3]], COLUMNS - 1, max_length=MAX_LENGTH)
    state = row.processor.init_state(context)
    path = tensor_path() if tensors else nullcontext()
    with path, pytest.raises(VocabularyError, match=r"71 columns.*72 ids"):
        processed(row.processor, state, torch.zeros(1, COLUMNS - 1), context)


@pytest.mark.parametrize("row", [row for row in ROWS if row.masks and not row.compares], ids=str)
def test_the_runs_of_the_registry_are_legal(row: Row) -> None:
    for tokens in row.runs:
        context = lk.Context.of([[]], COLUMNS)
        state = row.processor.init_state(context)
        for token in tokens:
            _, logits = processed(row.processor, state, torch.ones(1, COLUMNS), context)
            assert not logits[0, token].isinf()
            assert not row.sized or logits.isneginf().any()
            state = row.processor.advance(state, torch.tensor([token]))
