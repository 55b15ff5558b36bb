"""The tensor path, which runs on accelerators and in compiled graphs, gives the same results as the path by rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from tests import continue_saved
from tests.batches import (
    COLUMNS,
    DTYPES,
    batches,
    joined,
    logits_of,
    run,
    same_bits,
    same_result,
    same_state,
    step,
    tensor_path,
    with_guidance,
)
from tests.examples import examples, of_all
from tests.registry import EOS, ROWS, Row, ids, of_kind, vocabulary

KINDS = sorted({row.kind for row in ROWS if not row.on_host})
ON_HOST = [row for row in ROWS if row.on_host]


@pytest.mark.parametrize("row", ROWS, ids=str)
@settings(max_examples=examples(30))  # of every dtype together
@given(st.data())
def test_the_tensor_path_gives_the_same(row: Row, data: st.DataObject) -> None:
    batch = data.draw(batches(row))
    by_rows = run(row.processor, batch)
    with tensor_path():
        by_tensors = run(row.processor, batch)
        at_once = row.processor.advance(row.processor.init_state(batch.context()), batch.tokens)
    assert same_result(by_rows, by_tensors)
    assert same_state(at_once, by_rows.state)


def compiled(processor: lk.Processor[Any]) -> Callable[..., tuple[Any, Tensor]]:
    def one_step(state: Any, tokens: Tensor, logits: Tensor, context: lk.Context) -> tuple[Any, Tensor]:
        return processor.process_logits(processor.advance(state, tokens), logits, context)

    return torch.compile(one_step, fullgraph=True, backend="aot_eager")


@pytest.mark.parametrize("kind", of_all(KINDS, 2))
def test_a_compiled_graph_gives_the_same(kind: str) -> None:
    """One graph serves all rows of a kind, from any class of the kind, also after the registry got other automata and dropped
    them.

    Tracing takes most of the time, so each kind is traced for one dtype. The tests above run every row with all dtypes.
    """
    torch.compiler.reset()
    classes = {type(row.processor): row.processor for row in of_kind(kind)}
    graphs = [(processor, compiled(processor)) for processor in classes.values()]
    others: list[lk.Regex] = []
    dtype = DTYPES[KINDS.index(kind) % len(DTYPES)]
    for n in range(max(len(graphs), 3)):
        processor, one_step = graphs[n % len(graphs)]
        together, state, context = joined([(row, continue_saved.batch(row, n, dtype)) for row in of_kind(kind)])
        wanted = run(processor, together, state, context)
        for t in range(together.steps):
            context = step(context, together.tokens[:, t])
            seen = with_guidance(processor, context, together.logits[t + 1])
            state, logits = one_step(state, together.tokens[:, t], together.logits[t + 1].clone(), seen)
            assert same_bits(logits, wanted.logits[t + 1])
        assert same_state(state, wanted.state)
        others = [lk.Regex(f"[a-z]{{{n + length}}}", vocabulary()) for length in range(50, 53)]
        for other in others:
            other.init_state(lk.Context.of([[]], COLUMNS))


@pytest.mark.parametrize("row", ON_HOST, ids=str)
def test_a_step_on_the_host_is_not_compiled(row: Row) -> None:
    torch.compiler.reset()
    context = lk.Context.of([[]], COLUMNS)
    state = row.processor.init_state(context)
    with pytest.raises(Exception, match="of a compiled graph"):
        compiled(row.processor)(state, torch.tensor([-1]), torch.zeros(1, COLUMNS), context)


def test_a_compiled_graph_runs_automata_that_came_later() -> None:
    """A graph reads the tables of the registry as inputs, not as constants; a freed slot serves the next automaton."""
    torch.compiler.reset()
    first = lk.Regex("[a-z]{90}", vocabulary())
    one_step = compiled(first)
    context = lk.Context.of([[], []], COLUMNS)
    slots = set()
    for letter in "defghi":
        later = lk.Choice([f"c{letter}", "1"], vocabulary())
        state = later.init_state(context)
        slots.add(int(state.at.slot[0]))
        state, logits = one_step(state, torch.tensor([ids(b"c")[0], -1]), torch.ones(2, COLUMNS), context)
        wanted = torch.full((2, COLUMNS), -torch.inf)
        wanted[0, ids(letter.encode())[0]] = 1
        wanted[1, [ids(b"c")[0], ids(b"1")[0]]] = 1
        assert same_bits(logits, wanted)
        del later
    assert len(slots) == 1


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d).removeprefix("torch."))
@pytest.mark.parametrize("tensors", [False, True], ids=["rows", "tensors"])
def test_a_neutral_row_is_left_bit_by_bit(dtype: torch.dtype, tensors: bool) -> None:
    """Slot 0 means no constraint, next to rows that have one, for all tokens and widths of logits."""
    regex = lk.Regex("[0-9]{2}", vocabulary())
    context = lk.Context.of([[], []], COLUMNS)
    own = lk.select(regex.init_state(context), torch.tensor([0]))
    state = lk.concatenate([own, regex.neutral_state(lk.Context.of([[]], COLUMNS))])
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    logits = logits_of(0, (2, COLUMNS + 5), dtype)
    with tensor_path() if tensors else nullcontext():
        for tokens in ([5, 6], [-1, EOS], [6, -1], [-1, COLUMNS - 1]):
            state = regex.advance(state, torch.tensor(tokens))
            out = regex.process_logits(state, logits.clone(), context)[1]
            assert out[1].view(bits).equal(logits[1].view(bits))
            assert out[0, COLUMNS:].isneginf().all()
    assert regex.is_finished(state).tolist() == regex.is_dead(state).tolist() == [False, False]
