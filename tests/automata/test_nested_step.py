"""The numbers for what a byte does in an automaton that nests."""

from __future__ import annotations

import numpy as np

from logitkit.compiler.bytes.nested_step import ByStep, NestedStep

COUNT = 50
STEPS = {
    **{("state", n): n for n in range(COUNT)},
    **{("call", n): NestedStep.call(n) for n in range(COUNT)},
    **{("end", n): NestedStep.end(n) for n in range(COUNT)},
}


def test_each_step_has_a_number_of_its_own_and_is_read_as_it_was_made() -> None:
    assert len({*STEPS.values()}) == len(STEPS)
    for (kind, number), step in STEPS.items():
        read = {"state": NestedStep.is_state, "call": NestedStep.is_call, "end": NestedStep.is_end}
        assert [name for name, is_it in read.items() if is_it(step)] == [kind]
        assert kind == "state" or NestedStep.number(step) == number


def test_arrays_are_made_and_read_as_single_numbers_are() -> None:
    numbers, steps = np.arange(COUNT, dtype=np.int32), np.array([*STEPS.values()], np.int32)
    assert NestedStep.call(numbers).tolist() == [NestedStep.call(n) for n in range(COUNT)]
    assert NestedStep.end(numbers).tolist() == [NestedStep.end(n) for n in range(COUNT)]
    for read in (NestedStep.is_state, NestedStep.is_call, NestedStep.is_end, NestedStep.number):
        assert read(steps).tolist() == [read(step) for step in STEPS.values()]
    assert NestedStep.call(numbers).dtype == NestedStep.end(numbers).dtype == np.int32


def test_other_numbers_of_states_change_no_call_and_no_end() -> None:
    steps = np.array([[0, 2, NestedStep.call(1)], [5, NestedStep.end(0), 0]], np.int32)
    shifted = NestedStep.shifted(steps, 10)
    assert shifted.tolist() == [[0, 12, NestedStep.call(1)], [15, NestedStep.end(0), 0]]
    assert shifted.dtype == np.int32


def test_a_table_finds_the_value_of_each_step() -> None:
    for calls, ends in ((3, 2), (1, 4), (0, 2), (2, 0), (0, 0)):
        found = ByStep(np.array([10, 11, 12]), calls, ends)
        assert found.values[[NestedStep.call(n) for n in range(calls)]].tolist() == [0] * calls
        found.states[1] = 20
        found.calls[:] = 100 + np.arange(calls)
        found.ends[:] = 200 + np.arange(ends)
        table = [2, 1, 0, *map(NestedStep.call, range(calls)), *map(NestedStep.end, range(ends))]
        expected = [12, 20, 10, *range(100, 100 + calls), *range(200, 200 + ends)]
        assert found.values[table].tolist() == expected
        same = ByStep.renumbered(np.array([7, 8, 9]), calls, ends).values[table]
        assert same.tolist() == [9, 8, 7, *table[3:]]


def test_marks_that_a_table_sets_are_seen_by_kind() -> None:
    met = ByStep(np.zeros(4, bool), 3, 3)
    met.values[np.array([[NestedStep.call(2), 3], [NestedStep.end(0), 3]])] = True
    assert met.states.tolist() == [False, False, False, True]
    assert (met.calls.tolist(), met.ends.tolist()) == ([False, False, True], [True, False, False])
