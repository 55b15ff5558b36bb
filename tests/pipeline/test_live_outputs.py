"""Rows follow an engine that moves them, takes tokens back, and shows outputs as lists: each is as it is alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.batching.live_outputs import LiveOutputs, LiveRequest, RowMove, changed
from logitkit.errors import ProcessorError
from tests.batches import COLUMNS, sound_logits
from tests.examples import examples
from tests.pipeline.following import Request, batch

SIZE = 6
moves = st.builds(RowMove, st.integers(0, SIZE - 1), st.integers(0, SIZE - 1), st.booleans()).filter(
    lambda move: move.source != move.target
)


def simulated(places: list[Any], removed: list[int], added: list[tuple[int, Any]], moved: list[RowMove]) -> list[Any]:
    """Change a list of places, of which the empty ones are None."""
    found = list(places)
    for place in removed:
        found[place] = None
    for place, row in added:
        found[place] = row
    for source, target, swaps in moved:
        there = found[target]
        found[target] = found[source]
        found[source] = there if swaps else None
    return found


rows = st.one_of(st.none(), st.integers(0, 99))


@given(
    st.lists(rows, min_size=SIZE, max_size=SIZE),
    st.lists(st.integers(0, SIZE - 1), unique=True),
    st.lists(st.tuples(st.integers(0, SIZE - 1), rows), max_size=4),
    st.lists(moves, max_size=5),
)
def test_a_change_is_that_of_a_list(
    places: list[Any], removed: list[int], added: list[tuple[int, Any]], moved: list[RowMove]
) -> None:
    found = changed({place: row for place, row in enumerate(places) if row is not None}, removed, added, moved)
    assert [found.get(place) for place in range(SIZE)] == simulated(places, removed, added, moved)


def live(request: Request) -> LiveRequest | None:
    new = request.new(list(request.output))
    return None if new is None else LiveRequest(new, request.output)


@settings(max_examples=examples(60), deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 2**31))
def test_rows_are_as_alone(random: Any, seed: int) -> None:
    """Requests come with a part of their output, get any number of tokens, lose some, change places and leave."""
    followed = LiveOutputs(batch(), torch.device("cpu"), remedy="")
    places: list[Any] = []
    number = 0
    for step in range(8):
        removed = [place for place, request in enumerate(places) if request is not None and random.random() < 0.2]
        size = random.randint(1, SIZE)
        whole = [*places, *[None] * SIZE][:SIZE]
        added = []
        for place in range(size):
            if random.random() < 0.3:
                request = Request(number)
                request.output += [random.randrange(3, 60) for _ in range(random.randrange(4))]
                number += 1
                added.append((place, request))
        pairs = [random.sample(range(SIZE), 2) for _ in range(random.randrange(3))]
        moved = [RowMove(source, target, random.random() < 0.5) for source, target in pairs]
        after = simulated(whole, removed, added, moved)
        # A batch has no row after its last one, and may have empty ones before it.
        size = max((place + 1 for place, request in enumerate(after) if request is not None), default=0)
        places = after[:size]
        followed.change(size, removed, [(place, live(request)) for place, request in added], moved)
        for request in filter(None, places):
            if random.random() < 0.15:
                del request.output[random.randrange(len(request.output) + 1) :]
            elif random.random() < 0.7:
                request.output += [random.randrange(3, 60) for _ in range(random.choice([0, 1, 1, 3]))]
        logits = sound_logits(seed + step, (size, COLUMNS), torch.float32)
        found = followed.process_logits(logits.clone())
        for place, request in enumerate(places):
            wanted = logits[place] if request is None else request.alone(request.output, logits[place])
            assert torch.equal(found[place], wanted), (step, place)


def test_a_batch_without_processors_is_not_touched() -> None:
    followed, empty = LiveOutputs(rows := batch(), torch.device("cpu"), remedy=""), Request(0)
    followed.change(2, [], [(0, live(empty)), (1, live(empty))], [])
    logits = torch.ones(2, COLUMNS)
    assert followed.process_logits(logits) is logits
    assert len(rows) == 0


def test_a_hidden_token_is_an_error_that_changes_nothing() -> None:
    followed = LiveOutputs(batch(), torch.device("cpu"), remedy="show it")
    request, other = Request(1), Request(2)
    followed.change(2, [], [(0, live(request)), (1, live(other))], [])
    other.output += [9]
    request.output += [5, -1]
    with pytest.raises(ProcessorError, match="hides the newest token of a request from logitkit; show it"):
        followed.process_logits(torch.zeros(2, COLUMNS))
    request.output[-1] = 9
    logits = sound_logits(3, (2, COLUMNS), torch.float32)
    found = followed.process_logits(logits.clone())
    for row, one in enumerate((request, other)):
        assert torch.equal(found[row], one.alone(one.output, logits[row]))


def test_tokens_that_begin_an_output_stay_when_others_are_taken_back() -> None:
    """Such as those of a prompt that count as output: they are not in the engine's list."""
    request = Request(1)
    output = [5, 6, -1]
    new = request.new([8, 9, 5, 6])
    assert new is not None
    followed = LiveOutputs(batch(), torch.device("cpu"), remedy="")
    followed.change(1, [], [(0, LiveRequest(new, output))], [])
    del output[1:]
    logits = sound_logits(4, (1, COLUMNS), torch.float32)
    assert torch.equal(followed.process_logits(logits.clone())[0], request.alone([8, 9, 5], logits[0]))
