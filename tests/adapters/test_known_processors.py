"""The processor of a request is asked for once, whatever happens to the request, and under whatever name it comes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers.generation.continuous_batching.requests import FutureRequestState, RequestState, RequestStatus

import logitkit as lk
from logitkit_adapters.transformers.known_processors import AWAY, FEW, KnownProcessors
from logitkit_adapters.transformers.request_slots import RequestSlots

CPU = torch.device("cpu")


def vocabulary() -> lk.Vocabulary:
    return lk.Vocabulary([b"a", b"b", None], eos_ids=[2])


def started(name: str) -> RequestState:
    state = RequestState(request_id=name, initial_tokens=[0, 1], max_new_tokens=9)
    state.status = RequestStatus.DECODING
    return state


class Asked:
    """A function of the request that may be called once for each, as one that takes them out of a queue."""

    def __init__(self, **processors: Any) -> None:
        self.given = processors

    def __call__(self, name: str) -> Any:
        return self.given.pop(name)


def test_rows_with_and_without_a_processor_in_many_steps() -> None:
    slots = RequestSlots(Asked(one=lk.Regex("[ab]+", vocabulary()), none=None), CPU, 3, [2])
    states = [started("one"), started("none")]
    for step in range(6):
        # From the fourth step on, the first request waits, and then comes back.
        here = states[1:] if step in (3, 4) else states
        for state in here:
            state.position_offset = 2 + len(state.generated_tokens)
        slots.take(slots.prepare([FutureRequestState(state, True, {}, 1) for state in here]))
        found = slots.process(torch.tensor([0] * len(here)), torch.ones(len(here), 3))
        assert not found[-1].isinf().any()
        for state in here:
            state.generated_tokens.append(0)
    assert slots.error is None


def test_requests_that_come_back_fork_and_reuse_a_name() -> None:
    first, second = lk.BanTokens([0]), lk.BanTokens([1])
    given = {"one": [first, second]}
    known = KnownProcessors(lambda name: given[name].pop(0), [2])
    state = started("one")
    assert known.of(state, 1) is first
    state.generated_tokens += [1]
    state._status = RequestStatus.FINISHED  # as transformers marks an evicted request
    back = state.create_equivalent_initial_request()
    back.status = RequestStatus.PREFILLING
    assert known.of(back, 2) is first
    assert known.of(back.fork("one__child#0"), 3) is first
    back.status = RequestStatus.FINISHED
    assert known.of(started("one"), 4) is second


def test_the_name_of_a_warm_up_frees_nobody() -> None:
    """Servers take names from their clients."""
    banned = lk.BanTokens([0])
    known = KnownProcessors(lambda name: banned, [2])
    assert known.of(started("__warmup_DECODING_0__"), 1) is banned
    assert known.of(RequestState("__warmup_DECODING_0__", [0], max_new_tokens=1), 1) is None


@pytest.mark.parametrize("ends", [True, False])
def test_requests_that_are_over_or_stay_away_are_forgotten(ends: bool) -> None:
    known = KnownProcessors(lambda name: None, [2])
    stays = started("stays")
    for number in range(20 * FEW):
        state = started(f"req_{number}")
        step = number if ends else number * AWAY
        known.of(stays, step)
        known.of(state, step)
        if ends:
            state.status = RequestStatus.FINISHED
    assert len(known) <= 2 * FEW
    assert "stays" in known._known
