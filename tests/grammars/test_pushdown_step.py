"""The numbers for what a symbol does in an automaton that looks ahead."""

from __future__ import annotations

import numpy as np

from logitkit.compiler.bytes.pushdown_step import POP, PushdownStep

COUNT = 50


def test_each_step_has_a_number_of_its_own_and_is_read_as_it_was_made() -> None:
    states, pushes = [*range(COUNT)], [PushdownStep.push(move) for move in range(COUNT)]
    assert len({*states, *pushes, POP}) == 2 * COUNT + 1
    assert [PushdownStep.move(step) for step in pushes] == [*range(COUNT)]
    assert all(PushdownStep.is_state(step) and not PushdownStep.is_push(step) for step in states)
    assert all(PushdownStep.is_push(step) and not PushdownStep.is_state(step) for step in pushes)
    assert not PushdownStep.is_push(POP)
    assert not PushdownStep.is_state(POP)


def test_arrays_are_made_and_read_as_single_numbers_are() -> None:
    moves = np.arange(COUNT, dtype=np.int32)
    steps = np.concatenate([PushdownStep.push(moves), [POP, 0, 1, 9]]).astype(np.int32)
    assert PushdownStep.push(moves).tolist() == [PushdownStep.push(move) for move in range(COUNT)]
    assert PushdownStep.move(steps[:COUNT]).tolist() == [*range(COUNT)]
    for read in (PushdownStep.is_state, PushdownStep.is_push):
        assert read(steps).tolist() == [read(step) for step in steps.tolist()]
    assert PushdownStep.push(moves).dtype == np.int32


def test_pops_come_before_states_and_these_before_moves() -> None:
    steps = [POP, 0, 1, 7, PushdownStep.push(0), PushdownStep.push(1), PushdownStep.push(9)]
    assert sorted([steps[i] for i in (3, 0, 6, 2, 5, 1, 4)], key=PushdownStep.order) == steps
