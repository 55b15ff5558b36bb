"""Sessions, generators and states in several threads: what comes out is what comes out in one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions import Generated, Session, continuous
from tests.sessions.alone import alone
from tests.sessions.engines import ENGINES, loaded
from tests.sessions.in_threads import in_threads
from tests.sessions.recurrent_models import model as recurrent

SHARED = [280, 661, 509, 277, 372, 81]
# Four threads with two conversations each, which begin like those of the others.
PROMPTS = [[[*SHARED, 30 + thread], [*SHARED[:3], 40, 50 + thread]] for thread in range(4)]
TURNS = 3


@pytest.fixture(params=ENGINES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def talk(generate: Callable[[list[int]], list[int]], prompts: list[list[int]]) -> list[list[int]]:
    """Return the answers to all turns of some conversations."""
    said, answers = [*prompts], []
    for _ in range(TURNS):
        for chat, tokens in enumerate(said):
            answers.append(generate(tokens))
            said[chat] = [*tokens, *answers[-1], 7, 8]
    return answers


def wanted(name: str) -> list[list[list[int]]]:
    return [talk(lambda tokens: alone(name, tokens, 4), prompts) for prompts in PROMPTS]


def by(session: Session) -> Callable[[list[int]], list[int]]:
    return lambda tokens: session.generate(tokens, max_new_tokens=4).rows[0].token_ids


def test_one_session(name: str) -> None:
    expected = wanted(name)
    with Session(*loaded(name), max_length=256) as session:
        assert in_threads([partial(talk, by(session), prompts) for prompts in PROMPTS]) == expected


def test_each_call_in_a_thread_of_its_own(name: str) -> None:
    """Prompts that begin alike, some shorter: another thread goes on with what was cut off."""
    prompts = [SHARED, SHARED[:3], [*SHARED[:3], 40, 50], [*SHARED, 30], [*SHARED[:3], 40], SHARED]
    with Session(*loaded(name), max_length=256) as session:
        for prompt in prompts:
            (found,) = in_threads([partial(session.generate, prompt, max_new_tokens=1)])
            assert found.rows[0].token_ids == alone(name, prompt, 1)


def overlap(first: Session, second: Session) -> bool:
    """Return whether a call of one session runs while one of another is in the middle, in another thread."""
    inside, reached, seen = Event(), Event(), []

    def wait(logits: torch.Tensor, context: lk.Context) -> torch.Tensor:
        inside.set()
        seen.append(reached.wait(0.3))
        return logits

    def reach(logits: torch.Tensor, context: lk.Context) -> torch.Tensor:
        reached.set()
        return logits

    def call() -> Generated:
        assert inside.wait(60)
        return second.generate(SHARED, max_new_tokens=1, processor=lk.Stateless(reach))

    in_threads([lambda: first.generate(SHARED, max_new_tokens=1, processor=lk.Stateless(wait)), call])
    assert reached.is_set()
    return seen[0]


def test_a_call_waits_for_that_of_another_thread(name: str) -> None:
    session, other = (Session(*loaded(name), max_length=256) for _ in range(2))
    assert not overlap(session, session)
    # Sessions of one model of transformers share nothing.
    assert overlap(session, other) == (name == "transformers")


def test_a_session_for_each_thread(name: str) -> None:
    expected = wanted(name)
    sessions = [Session(*loaded(name), max_length=256) for _ in PROMPTS]
    calls = [partial(talk, by(session), prompts) for session, prompts in zip(sessions, PROMPTS, strict=True)]
    assert in_threads(calls) == expected


def test_generators_that_go_on_from_one_state(name: str, tmp_path: Any) -> None:
    text = continuous(*loaded(name))
    biased = continuous(*loaded(name), lk.LogitBias({31: 100.0}))
    state = text(["The price of tea is", "Item: pen"], max_new_tokens=4)
    steps: list[Callable[[], Any]] = [
        lambda: text(state, max_new_tokens=5).rows,
        lambda: biased(state, max_new_tokens=3).rows,
        lambda: text(state[:, :8], max_new_tokens=4).rows,
        lambda: text(state + " and", max_new_tokens=3).rows,
        lambda: text("Something else.", max_new_tokens=6).rows,
        lambda: state.save(tmp_path),
    ]
    expected = [step() for step in steps]
    assert expected[0] != expected[1]
    for _ in range(3):
        assert in_threads(steps) == expected
    assert text(text.load(tmp_path), max_new_tokens=5).rows == expected[0]


def test_a_session_beside_a_generator_of_the_same_model(name: str) -> None:
    expected = wanted(name)[0]
    text = continuous(*loaded(name))
    begun = text("The price of tea is", max_new_tokens=4)
    rows = [text(begun, max_new_tokens=count).rows for count in range(1, 7)]
    with Session(*loaded(name), max_length=256) as session:
        found = in_threads(
            [
                lambda: talk(by(session), PROMPTS[0]),
                lambda: [text(begun, max_new_tokens=count).rows for count in range(1, 7)],
            ]
        )
    assert found == [expected, rows]


def test_a_session_is_closed_once_the_call_in_another_thread_is_done(name: str) -> None:
    expected = alone(name, PROMPTS[0][0], 4)
    session, inside, closing = Session(*loaded(name), max_length=256), Event(), Event()

    def wait(logits: torch.Tensor, context: lk.Context) -> torch.Tensor:
        inside.set()
        assert closing.wait(60)
        return logits

    def close() -> None:
        assert inside.wait(60)
        closing.set()
        session.close()

    generate = partial(session.generate, PROMPTS[0][0], max_new_tokens=4, processor=lk.Stateless(wait))
    found, _ = in_threads([lambda: generate().rows[0].token_ids, close])
    assert found == expected
    with pytest.raises(ConfigurationError, match="closed"):
        session.generate(SHARED, max_new_tokens=1)


def test_a_processor_may_generate_with_the_session_that_calls_it(name: str) -> None:
    prompt, other = PROMPTS[0]
    said = []
    with Session(*loaded(name), max_length=256) as session:

        def ask(logits: torch.Tensor, context: lk.Context) -> torch.Tensor:
            said.append(session.generate(other, max_new_tokens=3).rows[0].token_ids)
            return logits

        found = session.generate(prompt, max_new_tokens=4, processor=lk.Stateless(ask)).rows[0].token_ids
    assert found == alone(name, prompt, 4)
    assert said == [alone(name, other, 3)] * 4


@pytest.mark.parametrize("kind", ["Mamba", "RecurrentGemma"])
def test_recurrent_layers_that_two_sessions_run(kind: str) -> None:
    model = recurrent(kind)
    prompts = [SHARED, [*SHARED[:4], 9], [5, 6, 7]]
    expected = [Session(model, max_length=64).generate(prompt, max_new_tokens=6).token_ids for prompt in prompts]
    sessions = [Session(model, max_length=64) for _ in prompts]
    calls = [partial(s.generate, prompt, max_new_tokens=6) for s, prompt in zip(sessions, prompts, strict=True)]
    assert [found.token_ids for found in in_threads(calls)] == expected

    def ask(logits: torch.Tensor, context: lk.Context) -> torch.Tensor:
        sessions[1].generate(prompts[1], max_new_tokens=2)
        return logits

    inner = sessions[0].generate(prompts[0], max_new_tokens=6, processor=lk.Stateless(ask))
    assert inner.token_ids == expected[0]
