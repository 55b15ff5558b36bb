"""Steps that are captured and replayed give the same results as steps that run operation by operation."""

from __future__ import annotations

import gc
import itertools
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.protocol import leaves
from logitkit.runtime import Constraint
from tests.batches import COLUMNS, batches, run, same_result, same_state
from tests.examples import examples
from tests.registry import EOS, PAD, ROWS, TOKENS, Row, ids
from tests.replayed import graphs

# The processors that capture their steps.
STEPS = (Constraint, lk.StopStrings, lk.ThinkingBudget)
SPECIAL = {"<s>": 0, "</s>": EOS, "<pad>": PAD}

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
    if isinstance(processor, STEPS) and batch.steps:
        # Both operations are captured, except that stops mask few ids, operation by operation.
        assert len({*again.functions}) >= (1 if isinstance(processor, lk.StopStrings) else 2)
        assert again.replayed > again.captured


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
        # No tables were laid out again, so the graphs of the first ones serve the others.
        assert captured[-1] == captured[2]


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
        # `advance` of one row has a graph in each layout.
        assert again.captured > 2


def test_tables_are_settled_after_every_change() -> None:
    def stepped(regex: lk.Regex) -> int:
        regex.advance(rows_of(regex, 1)[0], torch.tensor(ids(b"a")))
        return settle.call_count

    with graphs(), mock.patch("logitkit.runtime.bank_layout.BankLayout.settle") as settle:
        vocab = vocabulary()
        first = lk.Regex("a+", vocab)
        assert stepped(first) == 1
        second = lk.Regex("b+", vocab)
        assert [stepped(second), stepped(first)] == [2, 2]
        del second
        gc.collect()
        assert [stepped(first), stepped(first)] == [3, 3]
