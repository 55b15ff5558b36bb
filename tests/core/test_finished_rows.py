"""Finished rows stay finished: after EOS a chain allows only EOS and padding, and a conflict remains one."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit import Role
from logitkit.batching import ORDER, BatchedRequests, NewRequest, steps_of
from logitkit.composition.finished_rows import finished
from logitkit.errors import ConfigurationError
from logitkit.protocol import leaves, role_of
from tests.examples import examples
from tests.registry import EOS, PAD, ROWS, Row, ids, vocabulary

NEVER = float("-inf")
V = vocabulary()
WIDTH = 72

# Every constraint of the registry, including those in chains, except where EOS is a stop, which is not a conflict.
LINKS: list[lk.Processor[Any]] = [
    link
    for row in ROWS
    for link in getattr(row.processor, "processors", (row.processor,))
    if role_of(link) is Role.CONSTRAINT and EOS not in getattr(link, "stops", ())
]
LANGUAGES = [link for link in LINKS if hasattr(link, "vocabulary")]
COUNTING: list[lk.Processor[Any]] = [
    lk.ForcedTokens(ids(b"a", b"b")),
    lk.ForcedTokens([*ids(b"1"), EOS, *ids(b",", b"2")]),
    lk.ForcedTokens([EOS]),
    lk.MinNewTokens(2, [EOS]),
    lk.MinNewTokens(5, [EOS]),
    lk.AllowTokens([EOS, *ids(b"a", b"1", b",")]),
    lk.BanTokens([PAD, *ids(b"a", b"1")]),
]
OTHERS = [*COUNTING, *LINKS]


def _forced(processor: lk.Chain, position: int) -> set[int]:
    """Return the ids that any link forces there."""
    forced = [p.ids for p in processor.processors if isinstance(p, lk.ForcedTokens)]
    return {list(given)[position] for given in forced if position < len(given)}  # type: ignore[misc]


def _legal(processor: lk.Chain, state: object) -> list[int]:
    context = lk.Context.of([[]], vocabulary_size=WIDTH)
    row = processor.process_logits(state, torch.zeros(1, WIDTH), context)[1][0]  # type: ignore[arg-type]
    return (row > NEVER).nonzero()[:, 0].tolist()


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.integers(0, len(LANGUAGES) - 1), min_size=1, max_size=2, unique=True),
    st.lists(st.integers(0, len(OTHERS) - 1), max_size=3),
    st.randoms(use_true_random=False),
    st.integers(0, 9),
)
def test_after_eos_only_eos_and_pad_and_a_conflict_stays(
    languages: list[int], others: list[int], choice: random.Random, eager: int
) -> None:
    links = [*(LANGUAGES[i] for i in languages), *(OTHERS[i] for i in others)]
    choice.shuffle(links)
    try:
        both = lk.chain(*links)
    except ConfigurationError:
        assume(False)
    context = lk.Context.of([[]], vocabulary_size=WIDTH)
    state = both.init_state(context)
    stops = [(link, link.init_state(context)) for link in links if isinstance(link, lk.StopStrings)]
    said: list[int] = []
    ended = conflict = False
    for position in range(24):
        legal = _legal(both, state)
        note(f"{said} {legal} {both.processors}")
        assert legal
        assert not ended or set(legal) <= {EOS, PAD}
        now = bool(both.conflicts(state, columns=WIDTH))
        # A row that a stop has ended is not in conflict, and forced tokens may write a stop.
        assert now or not conflict or any(bool(link.fired(stop)) for link, stop in stops)
        conflict = now
        token = EOS if EOS in legal and choice.randrange(10) < eager else choice.choice(legal)
        is_forced = token in _forced(both, position)
        ended = ended or (token == EOS and not is_forced)
        said.append(token)
        state = both.advance(state, torch.tensor([token]))
        # A forced EOS is not text, and ends nothing.
        text = torch.tensor([-1 if token == EOS and is_forced else token])
        stops = [(link, link.advance(stop, text)) for link, stop in stops]


@pytest.mark.parametrize("prompt", [[], [EOS]])
def test_an_end_that_repeats_a_forced_eos_or_one_of_the_prompt_is_not_a_conflict(prompt: list[int]) -> None:
    both = lk.chain(lk.ForcedTokens([4, EOS]), lk.Regex("[0-9]c", V), lk.NoRepeatNGram(1))
    state = both.init_state(lk.Context.of([prompt], vocabulary_size=WIDTH))
    for token, ended in ((4, False), (EOS, False), (*ids(b"c"), False), (EOS, True)):
        state = both.advance(state, torch.tensor([token]))
        assert not both.conflicts(state).any()
        assert not ended or set(_legal(both, state)) <= {EOS, PAD}


@pytest.mark.parametrize("pattern", ["c", "c?", ""])
@pytest.mark.parametrize("forced", [[3], [3, 4], [3, EOS, 4]])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("after", [EOS, PAD])
def test_an_eos_that_is_not_the_forced_token_ends_the_row(
    pattern: str, forced: list[int], first: bool, after: int
) -> None:
    links: list[lk.Processor[Any]] = [lk.ForcedTokens(forced), lk.BanTokens([3]), lk.Regex(pattern, V)]
    both = lk.chain(*(links if first else [links[2], *links[:2]]))
    state = both.init_state(lk.Context.of([[]], vocabulary_size=WIDTH))
    for run in ([], [EOS], [after], [after, after], [after]):
        state = both.advance(state, torch.tensor([run])) if run else state
        assert set(_legal(both, state)) <= {EOS, PAD}
        assert both.conflicts(state).tolist() == [True]


def test_all_at_once_is_as_one_by_one() -> None:
    both = lk.chain(lk.Regex("c?", V), lk.ForcedTokens([3, EOS, 5]), lk.BanTokens([3]), lk.MinNewTokens(3, [EOS]))
    context = lk.Context.of([[]] * 4, vocabulary_size=WIDTH)
    tokens = torch.tensor([[EOS, EOS, 5, EOS], [3, EOS, 5, EOS], [3, EOS, EOS, 5], [-1, EOS, -1, 4]])
    at_once = both.advance(both.init_state(context), tokens)
    step = both.init_state(context)
    for column in tokens.unbind(1):
        step = both.advance(step, column)
    assert [t.tolist() for t in leaves(at_once)] == [t.tolist() for t in leaves(step)]


def test_a_batch_of_requests_ends_as_a_chain_does() -> None:
    links: list[lk.Processor[Any]] = [lk.Regex("c?", V), lk.ForcedTokens([3, 4]), lk.BanTokens([3])]
    both = lk.chain(*sorted(links, key=_place))
    batch = BatchedRequests("cpu")
    batch.arrange([NewRequest(both, prompt=[5]), NewRequest(lk.ForcedTokens([3, EOS, 4]), prompt=[6])])
    for _ in range(4):
        legal = batch.process_logits(torch.zeros(2, WIDTH))[0] > NEVER
        assert set(legal.nonzero()[:, 0].tolist()) <= {EOS, PAD}
        batch.advance(torch.tensor([EOS, 3]))


def _place(processor: lk.Processor[Any]) -> int:
    (kind,) = steps_of(processor)
    return ORDER.index(kind)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_an_adapter_can_end_rows(row: Row) -> None:
    state = row.processor.init_state(lk.Context.of([[], []], vocabulary_size=WIDTH))
    after = finished(row.processor, state, torch.tensor([True, False]))
    links: tuple[Any, ...] = getattr(row.processor, "processors", (row.processor,))
    states = (state, after) if isinstance(row.processor, lk.Chain) else ((state,), (after,))
    for link, before, now in zip(links, *states, strict=True):
        if hasattr(link, "finish"):
            wanted = link.finish(before, torch.tensor([True, False]))
            assert all(map(torch.equal, leaves(now), leaves(wanted)))
        if hasattr(link, "is_finished"):
            assert link.is_finished(now).tolist() == [True, *link.is_finished(before).tolist()[1:]]
