"""Thinking budgets with all their options in sessions, in every engine, and sections that are closed between two generations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import logitkit as lk
from logitkit_adapters.sessions import Session, continuous, trace
from tests.adapters.demo import vocabulary
from tests.sessions.engines import ENGINES, loaded

V = vocabulary()
PROMPT = "Is the sky blue? "
MESSAGE, MARKER = "\nI have to answer now.\n", "</think>"
# The model writes `The boy eats in the park.` within the grace.
GENTLE = lk.ThinkingBudget(
    12, [MARKER, "<end>"], V, message=MESSAGE, grace=20, min_tokens=3, pause=[("<call>", "</call>")]
)
ANSWER = lk.then(None, lk.Choice([" yes", " no"], V), MARKER)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_sentence_is_finished_and_then_the_message_is_forced(engine: str) -> None:
    with Session(*loaded(engine), lk.chain(GENTLE, ANSWER)) as session:
        (row,) = session.generate(PROMPT, max_new_tokens=60).rows
        text = row.text.lstrip()
        thought, _, answer = text.partition(MESSAGE + MARKER)
        assert thought.endswith("park.")
        assert answer in (" yes", " no")
        beams = session.generate(PROMPT, max_new_tokens=60, num_beams=3).rows
        samples = session.generate(PROMPT, max_new_tokens=60, num_samples=3, seed=5).rows
        for other in (*beams, *samples):
            thought, _, answer = other.text.rpartition(MARKER)
            assert answer in (" yes", " no")
            # A thought that does not end by itself ends with the message.
            assert MARKER not in thought
            assert thought.endswith(MESSAGE)


def test_a_deadline_between_two_generations(engine: str, tmp_path: Path) -> None:
    """The first row is closed; its samples, and the state when it is loaded again, keep that."""
    budget = lk.ThinkingBudget(99, MARKER, V, message="\n")
    # The model would end sooner.
    processor = lk.chain(lk.MinNewTokens(30, V.eos_ids), budget)
    text: Any = continuous(*loaded(engine), processor, carry_state=True)
    state = text([PROMPT, PROMPT], max_new_tokens=5)
    others, now = state.processor_state
    closed = replace(state, processor_state=(others, budget.close(now, [True, False])))
    closed.save(tmp_path / "closed")
    for start in (closed, text.load(tmp_path / "closed")):
        first, second = text(start, max_new_tokens=12).texts
        assert first.startswith(str(state[0, :]) + "\n" + MARKER)
        assert MARKER not in second
    # A state from before is still open.
    assert not any(MARKER in row for row in text(state, max_new_tokens=12).texts)


def test_a_trace_shows_what_was_forced(engine: str) -> None:
    budget = lk.ThinkingBudget(3, MARKER, V, message="\n")
    traced = trace(*loaded(engine), PROMPT, lk.chain(lk.MinNewTokens(9, V.eos_ids), budget), max_new_tokens=8)
    shown = [line for line in str(traced).splitlines() if "ThinkingBudget bans 1,2" in line]
    assert [line.split()[1] for line in shown] == [r"'\n'", "'<'", "'/'", "'t'", "'h'"]
