"""Steps that are captured and replayed give the same results as steps that run operation by operation.

There is no CUDA device here, so a graph is a function that runs again on the tensors that the graph owns: what a real one may not
do, such as reading a tensor that another call was given, is as wrong in this one. `benchmarks/bench_cuda.py` uses real ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.protocol import leaves
from logitkit.runtime import Constraint, step_graphs
from logitkit.runtime.step_graphs import StepGraphs
from tests.batches import COLUMNS, batches, run, same_result, same_state, tensor_path
from tests.examples import examples
from tests.registry import EOS, PAD, ROWS, TOKENS, Row, ids

SPECIAL = {"<s>": 0, "</s>": EOS, "<pad>": PAD}


class Again:
    """Captures a function by keeping it."""

    def __init__(self) -> None:
        self.captured = self.replayed = 0

    def stream(self) -> int | None:
        return 0

    def capture(self, function: Callable[[], Any], stream: object) -> tuple[Callable[[], None], Any]:
        results = function()
        self.captured += 1

        def replay() -> None:
            self.replayed += 1
            for own, new in zip(leaves(results), leaves(function()), strict=True):
                own.copy_(new)

        return replay, results


@contextmanager
def graphs(calls: int = 1) -> Iterator[Again]:
    """Run by tensors, and capture steps after some calls, in banks that are made meanwhile."""
    again = Again()
    captures = mock.patch("logitkit.runtime.bank_layout.capture_on", return_value=again)
    with tensor_path(), captures, mock.patch.object(step_graphs, "CALLS", calls):
        yield again


numbers = itertools.count()


def vocabulary() -> lk.Vocabulary:
    """Return a vocabulary that equals no other, so that it has banks of its own."""
    return lk.Vocabulary(
        [*TOKENS, f"vocabulary {next(numbers)}".encode()], eos_ids=[EOS], size=COLUMNS, pad_id=PAD, special=SPECIAL
    )


def rows_of(processor: lk.Processor[Any], count: int) -> tuple[Any, lk.Context]:
    context = lk.Context.of([[]] * count, COLUMNS)
    return processor.init_state(context), context


@pytest.mark.parametrize("row", ROWS, ids=str)
@settings(max_examples=examples(10))
@given(st.data())
def test_replayed_steps_give_the_same(row: Row, data: st.DataObject) -> None:
    batch = data.draw(batches(row))
    processor = row.make(vocabulary())
    by_rows = run(processor, batch)
    with graphs() as again:
        first, second = run(processor, batch), run(processor, batch)
        at_once = processor.advance(processor.init_state(batch.context()), batch.tokens)
    assert same_result(by_rows, first)
    assert same_result(by_rows, second)
    assert same_state(at_once, by_rows.state)
    if isinstance(processor, Constraint):
        assert again.captured
        assert again.replayed > again.captured or not batch.steps


def test_states_and_masks_stay_as_they_are_when_a_graph_runs_again() -> None:
    with graphs() as again:
        processor = lk.JsonSchema({"type": "array", "items": {"type": "integer"}}, vocabulary())
        (state, context), kept = rows_of(processor, 1), []
        for letter in "[1,[2]":
            state = processor.advance(state, torch.tensor(ids(letter.encode())))
            legal = processor.process_logits(state, torch.zeros(1, COLUMNS), context)[1]
            kept.append((state, legal, [leaf.clone() for leaf in leaves(state)], legal.clone()))
        assert again.replayed > 6
    for state, legal, leaves_then, legal_then in kept:
        assert all(map(torch.equal, leaves(state), leaves_then))
        assert torch.equal(legal, legal_then)


def test_a_graph_reads_automata_that_came_later() -> None:
    with graphs() as again:
        vocab = vocabulary()
        first = lk.Regex("[a-z]{90}", vocab)
        rows_of(first, 1)
        slots, captured = set(), []
        for letter in "defghi":
            later = lk.Choice([f"c{letter}", "1"], vocab)
            state, context = rows_of(later, 2)
            slots.add(int(state.at.slot[0]))
            state = later.advance(state, torch.tensor([ids(b"c")[0], -1]))
            legal = later.process_logits(state, torch.zeros(2, COLUMNS), context)[1] == 0
            assert [row.nonzero().flatten().tolist() for row in legal] == [
                [*ids(letter.encode())],
                sorted([*ids(b"c"), *ids(b"1")]),
            ]
            captured.append(again.captured)
            del later
        assert len(slots) == 1
        assert (
            captured[-1] == captured[2]
        )  # no tables were laid out again, so the graphs of the first ones serve the others


def test_new_tables_have_new_graphs() -> None:
    with graphs() as again:
        vocab, made = vocabulary(), []
        for count in (1, 5, 50):
            made.append(lk.Regex(f"(?:a{{{count}}}b)*", vocab))
            for regex in made:
                state, _ = rows_of(regex, 1)
                for token in ids(b"a") * 3:
                    state = regex.advance(state, torch.tensor([token]))
                wanted = [regex.matches("a" * 3 + "a" * more + "b") for more in range(60)]
                assert bool(regex.is_dead(state)) is not any(wanted)
        layout = made[0].bank.layout_on(torch.device("cpu"))
        assert again.captured > len(layout.graphs)


def test_only_equal_shapes_share_a_graph() -> None:
    again = Again()
    run = StepGraphs(again).run
    with mock.patch.object(step_graphs, "CALLS", 1):
        for _ in range(3):
            for shape in ((2,), (3,), (2, 1)):
                for dtype in (torch.int64, torch.int32):
                    given = torch.ones(shape, dtype=dtype)
                    found = run(_added, 5, given)
                    assert found.equal(given + 5)
                    assert found.dtype == dtype
    assert again.captured == 6
    assert again.replayed == 12


def _added(tables: int, given: Tensor) -> Tensor:
    return given + tables


def test_the_graphs_used_last_are_kept() -> None:
    again = Again()
    made = StepGraphs(again)
    with mock.patch.object(step_graphs, "CALLS", 0), mock.patch.object(step_graphs, "MOST", 3):
        for size in (1, 2, 3, 1, 4, 1, 2):  # 2 was dropped for 4
            made.run(_added, 0, torch.zeros(size))
    assert (again.captured, len(made)) == (5, 3)


def test_a_step_that_cannot_be_captured_runs_operation_by_operation() -> None:
    class Fails(Again):
        def capture(self, function: Callable[[], Any], stream: object) -> tuple[Callable[[], None], Any]:
            raise RuntimeError("operation not permitted")

    made, given = StepGraphs(Fails()), torch.ones(2)
    with mock.patch.object(step_graphs, "CALLS", 0):
        with pytest.warns(RuntimeWarning, match="operation not permitted"):
            assert made.run(_added, 1, given).tolist() == [2, 2]
        assert made.run(_added, 2, given).tolist() == [3, 3]  # and does not warn again


def test_nothing_is_captured_where_a_graph_is_captured_already_or_graphs_are_off() -> None:
    class Capturing(Again):
        def stream(self) -> None:
            return None

    given = torch.ones(2)
    with mock.patch.object(step_graphs, "CALLS", 0):
        for again, enabled in ((Capturing(), True), (Again(), False)):
            with mock.patch.object(StepGraphs, "enabled", enabled):
                assert StepGraphs(again).run(_added, 1, given).tolist() == [2, 2]
            assert again.captured == 0


def test_a_graph_serves_calls_in_and_out_of_inference_mode() -> None:
    made = StepGraphs(Again())
    with mock.patch.object(step_graphs, "CALLS", 0):
        with torch.inference_mode():
            assert made.run(_added, 1, torch.ones(2)).tolist() == [2, 2]
        assert made.run(_added, 1, torch.zeros(2)).tolist() == [1, 1]
        with torch.inference_mode():
            assert made.run(_added, 1, torch.ones(2)).tolist() == [2, 2]
