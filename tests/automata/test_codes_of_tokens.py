"""Numbers that stand for a choice: the examples of their modules, and all of a small range written and read again."""

from __future__ import annotations

import numpy as np
import torch

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.compiler.tokens.fragments.fragment_stores import FragmentTargets
from logitkit.compiler.tokens.markers.marker_targets import MarkerTargets
from logitkit.compiler.tokens.records.record_states import RecordStates
from logitkit.compiler.tokens.tables.counted_state import MOST, StateAndCount
from logitkit.compiler.tokens.tables.targets import REGISTRY_TARGETS, Targets
from logitkit.reasoning.section_states import INSIDE, SectionStates
from logitkit.runtime.slot_generation import SlotGeneration


def test_targets() -> None:
    targets = Targets(120, 20)
    assert (targets.frame(3), targets.action(0), targets.action(5)) == (103, 120, 125)
    assert not targets.is_action(7)
    assert not targets.is_action(119)
    assert targets.is_action(120)
    assert targets.action_number(125) == 5
    assert targets.frame_number(103) == 3
    assert targets.first_frame == 100


def test_counted_moves_are_not_actions_of_tables() -> None:
    targets = Targets(120)
    moves = targets.counted_move(np.arange(4))
    assert targets.is_counted_move(moves).all()
    assert not targets.is_counted_move(targets.action(np.arange(1000))).any()
    assert targets.counted_move_number(moves).tolist() == [0, 1, 2, 3]


def test_actions_without_numbers() -> None:
    found = [Targets.later(place) for place in range(5)]
    assert all(map(Targets.is_later, found))
    assert not any(map(Targets.is_later, (DEAD, FINISHED, Targets(9).action(2))))
    assert [*map(Targets.later_place, found)] == [0, 1, 2, 3, 4]


def test_targets_of_a_registry_fit_into_its_tables() -> None:
    found = REGISTRY_TARGETS.action(torch.tensor([0, 7, 2**30 - 1]))
    assert REGISTRY_TARGETS.is_action(found).all()
    assert REGISTRY_TARGETS.action_number(found.to(torch.int32)).tolist() == [0, 7, 2**30 - 1]


def test_states_with_counts() -> None:
    assert StateAndCount.of(7, 3) == 12884901895
    for state in (DEAD, FINISHED, FIRST_STATE, 7, 2**31 - 1):
        assert StateAndCount.of(state, 0) == state
        for count in (1, 3, MOST):
            whole = StateAndCount.of(state, count)
            assert 0 <= whole < 2**63
            assert (StateAndCount.state(whole), StateAndCount.count(whole)) == (state, count)
            tensor = StateAndCount.of(torch.tensor([state]), torch.tensor([count]))
            assert tensor.tolist() == [whole]
            assert (StateAndCount.state(tensor).item(), StateAndCount.count(tensor).item()) == (state, count)


def test_targets_in_a_fragment() -> None:
    targets = FragmentTargets(states=5, marks=1, chain=4, counts=3)
    found = [int(n) for n in (targets.state(np.array(3)), targets.state(np.array(5)), targets.state(np.array(3), 1))]
    assert found == [3, 5, 9]
    # The end, then the same end with two bytes left, then with a character before it.
    numbers, left = targets.ended(np.array([16, 18, 20]))
    assert targets.first_end == int(targets.end(np.array(0))) == 16
    assert left.tolist() == [0, 2, 0]
    mark, characters = targets.ending(numbers)
    assert (mark.tolist(), characters.tolist()) == ([0, 0, 0], [0, 0, 1])


def test_each_target_in_a_fragment_means_one_thing() -> None:
    for states, marks, chain, counts in ((5, 1, 4, 3), (3, 2, 2, 4), (4, 3, 5, 1)):
        targets = FragmentTargets(states, marks, chain, counts)
        every = np.arange(targets.size)
        is_end = targets.is_end(every)
        state, characters = targets.reached(every[~is_end])
        again = [int(targets.state(np.array(s), c)) for s, c in zip(state.tolist(), characters.tolist(), strict=True)]
        assert again == every[~is_end].tolist()
        numbers, left = targets.ended(every[is_end])
        mark, characters = targets.ending(numbers)
        assert len({*zip(mark.tolist(), characters.tolist(), left.tolist(), strict=True)}) == marks * counts * chain
        assert (mark < marks).all()
        assert (characters < counts).all()
        assert targets.end(mark)[characters == 0].tolist() == (every[is_end] - left)[characters == 0].tolist()
        # One more byte leaves one byte more of the same end, or nothing.
        after = targets.after_byte()
        assert (after[~is_end] == DEAD).all()
        for target, number, bytes_left in zip(every[is_end].tolist(), numbers.tolist(), left.tolist(), strict=True):
            if bytes_left == chain - 1:
                assert after[target] == DEAD
            else:
                assert [int(n) for n in targets.ended(after[target])] == [number, bytes_left + 1]


def test_targets_before_a_marker() -> None:
    targets = MarkerTargets(10)
    assert (targets.ended(0), targets.ended(3)) == (10, 13)
    assert targets.is_ended(np.array([4, 9, 10, 13])).tolist() == [False, False, True, True]
    assert targets.left(np.array([10, 13])).tolist() == [0, 3]


def test_states_of_records() -> None:
    states = RecordStates(size=4, rest=3, copies=2)
    every = np.concatenate([states.in_copy(0, np.arange(4)), states.in_rest(0, np.arange(3))])
    every = np.concatenate([every, every + states.block, states.in_rest(2, np.arange(3))])
    assert every.tolist() == [*range(2, 19)]
    assert states.count == 19
    copy, in_rest, place = states.places(every)
    assert copy.tolist() == [0] * 7 + [1] * 7 + [2] * 3
    assert in_rest.tolist() == ([False] * 4 + [True] * 3) * 2 + [True] * 3
    assert place.tolist() == [0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 0, 1, 2]


def test_states_of_sections() -> None:
    sections = SectionStates(8)
    assert (INSIDE, sections.forced(INSIDE), sections.closed, sections.outside) == (2, 10, 18, 19)
    assert [state for state in range(25) if sections.is_inside(state)] == [*range(2, 10)]
    assert [state for state in range(25) if sections.is_looked_up(state)] == [*range(10, 19)]
    rows = SectionStates(torch.tensor([8, 1]))
    assert rows.is_inside(torch.tensor([9, 3])).tolist() == [True, False]
    assert rows.forced(torch.tensor([9, 2])).tolist() == [17, 3]


def test_generations() -> None:
    plain, with_stacks = (SlotGeneration.first(stacks=stacks) for stacks in (False, True))
    assert (plain, SlotGeneration.after(plain), with_stacks) == (0, 1, 2**40)
    assert [*map(SlotGeneration.has_stacks, (plain, with_stacks, SlotGeneration.after(with_stacks)))] == [
        False,
        True,
        True,
    ]
    assert SlotGeneration.has_stacks(torch.tensor([SlotGeneration.VACANT, 5, with_stacks])).tolist() == [
        False,
        False,
        True,
    ]
