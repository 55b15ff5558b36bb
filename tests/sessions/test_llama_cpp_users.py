"""Several users of one `Llama`: sessions, some of them rolling, states, and its own `generate`; none takes another's cache."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import weakref
from functools import cache
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import llama_cpp
import pytest
import torch

from logitkit_adapters.demo import gguf_path
from logitkit_adapters.llama_cpp import Session, continuous
from logitkit_adapters.llama_cpp.sequence import LlamaCppEngine
from tests.sessions.engines import loaded, watched
from tests.sessions.failing import Failing

EOS = 2

CLOSED = """
import llama_cpp
from logitkit_adapters.demo import gguf_path
from logitkit_adapters.llama_cpp import Session
llama = llama_cpp.Llama(str(gguf_path()), n_ctx=128, verbose=False)
session = Session(llama, rolling={rolling})
text = [*range(100, 124)]
session.generate([*range(50, 62), *text], max_new_tokens=1)
stream = session.stream([*text, 9], max_new_tokens=8)
next(stream)
llama.close()
stream.close()
session.close()
print("closed")
"""


def llama() -> Any:
    return loaded("llama.cpp")[0]


def words(seed: int, count: int) -> list[int]:
    chance = random.Random(seed)
    return [chance.randrange(5, 1200) for _ in range(count)]


def alone(prompt: list[int], count: int) -> list[int]:
    """The tokens that the `Llama` itself generates, with an empty cache."""
    llama().reset()
    llama()._ctx.kv_cache_clear()
    return own(prompt, count)


def own(prompt: list[int], count: int) -> list[int]:
    """The tokens that the `Llama` itself generates now."""
    found = []
    for token in islice(llama().generate(prompt, temp=0), count):
        found.append(token)
        if token == EOS:
            break
    return found


def rolled(session: Session, text: list[int]) -> None:
    """Let a session drop what came before a text, so that its keys are shifted."""
    session.generate([*words(99, 12), *text], max_new_tokens=1)
    assert session.generate([*text, 9], max_new_tokens=1).approximate


@pytest.mark.parametrize("seed", range(6))
def test_shifted_keys_are_not_taken_for_those_of_the_same_tokens(seed: int) -> None:
    text = words(seed, 24)
    prompt = [*text, 9, 10, 11]
    expected = alone(prompt, 12)
    with Session(llama(), max_length=400) as plain, Session(llama(), max_length=400, rolling=True) as rolling:
        plain.generate(text, max_new_tokens=1)
        rolled(rolling, text)
        assert own(prompt, 12) == expected
        rolled(rolling, text)
        found = plain.generate(prompt, max_new_tokens=12)
        assert (found.token_ids[0], found.approximate) == (expected, False)


@pytest.mark.parametrize("seed", range(3))
def test_a_state_beside_a_rolling_session_keeps_and_saves_its_own_cache(seed: int, tmp_path: Path) -> None:
    text = words(seed, 24)
    generate = continuous(llama(), None)
    state = generate(text, max_new_tokens=1)
    written = list(state.rows[0])
    expected = [token for token in alone(written, 12) if token != EOS]
    with Session(llama(), max_length=400, rolling=True) as rolling:
        rolled(rolling, text)
        state.save(tmp_path / "state")
        rolled(rolling, text)
        assert list(generate(state, max_new_tokens=12).rows[0][len(written) :]) == expected
    llama().reset()
    with watched(llama()) as fed:
        loaded_state = generate.load(tmp_path / "state")
        assert list(generate(loaded_state, max_new_tokens=12).rows[0][len(written) :]) == expected
    assert set(fed) == {1}


def test_a_call_that_rolls_and_fails_leaves_no_shifted_keys() -> None:
    for seed in range(8):
        text = words(seed, 24)
        prompt = [*text, 11, 12]
        expected = alone(prompt, 12)
        with Session(llama(), max_length=400, rolling=True) as session:
            session.generate(text, max_new_tokens=1)
            session.generate([*words(99, 12), *text, *words(98, 6)], max_new_tokens=1)
            with pytest.raises(ValueError, match="fails"):
                session.generate(
                    [*text, *words(98, 6), 9], max_new_tokens=4, processor=Failing(ValueError("it fails"), 1)
                )
            assert own(prompt, 12) == expected
            found = session.generate(prompt, max_new_tokens=12)
            assert found.approximate or found.token_ids[0] == expected


def test_a_rewind_leaves_no_shifted_keys() -> None:
    for seed in range(8):
        text = words(seed, 24)
        prompt = [*text, 9, 10, 11]
        expected = alone(prompt, 12)
        with Session(llama(), max_length=400, rolling=True) as session:
            rolled(session, text)
            session.position = 24
            assert own(prompt, 12) == expected


@pytest.mark.parametrize("rolling", [False, True])
def test_a_stream_of_a_model_that_was_closed_can_be_closed(rolling: bool) -> None:
    program = CLOSED.format(rolling=rolling)
    assert (
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout == "closed\n"
    )


def test_a_stream_that_rolled_and_is_dropped_leaves_no_shifted_keys() -> None:
    text = words(4, 24)
    prompt = [*text, 9, 10]
    expected = alone(prompt, 12)
    with Session(llama(), max_length=400, rolling=True) as session:
        session.generate([*words(99, 12), *text], max_new_tokens=1)
        stream = session.stream([*text, 9], max_new_tokens=8)
        next(stream)
        stream.close()
        assert own(prompt, 12) == expected


def test_sessions_that_take_turns_feed_only_what_is_new() -> None:
    first, second = words(1, 60), words(2, 60)
    with Session(llama(), max_length=400) as one, Session(llama(), max_length=400) as other:
        for turn in range(3):
            for session, prompt in ((one, first), (other, second)):
                found = session.generate(prompt, max_new_tokens=3)
                assert found.cached_tokens == (len(prompt) - 2 if turn else 0)
                prompt += [*found.token_ids[0], 7]


def test_a_stream_and_a_state_that_take_turns_feed_each_position_once() -> None:
    long = [text for text in (words(seed, 60) for seed in range(20)) if EOS not in alone(text, 12)]
    generate = continuous(llama(), None)
    state = generate(long[0], max_new_tokens=2)
    with Session(llama(), max_length=400) as session, watched(llama()) as fed:
        for _ in session.stream(long[1], max_new_tokens=6):
            state = generate(state, max_new_tokens=1)
    assert (fed.count(60), set(fed)) == (1, {1, 60})


def beside_a_dropped_stream(line: int, rolling: bool) -> list[list[int]]:
    """Return what two sessions write if the garbage collector closes a stream of one at some line of a call of the other.

    Args:
        line: Which of the lines that the call executes in logitkit and llama_cpp; 0: there is no stream.
        rolling: Whether both sessions roll.
    """
    first, second = words(3, 12), words(5, 14)
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if not any(name in frame.f_code.co_filename for name in ("logitkit", "llama_cpp")):
            return None
        left -= event == "line"
        if not left:
            sys.settrace(None)
            gc.collect()
        return trace

    llama().reset()
    with Session(llama(), rolling=rolling) as session, Session(llama(), rolling=rolling) as other:
        for one, text in ((other, second), (session, first)):
            one.generate([*words(99, 12), *text] if rolling else text[:5], max_new_tokens=1)
        cycle: list[Any] = []
        if line:
            cycle += [session.stream(first, max_new_tokens=20), cycle]
            next(cycle[0])
        before = sys.gettrace()
        gc.collect()
        gc.disable()
        try:
            del cycle
            sys.settrace(trace if line else None)
            found = [other.generate([*second, 9], max_new_tokens=4).token_ids[0]]
        finally:
            sys.settrace(before)
            gc.enable()
        return [*found, *(one.generate([*first, 7], max_new_tokens=4).token_ids[0] for one in (session, other))]


@cache
def without_a_stream(rolling: bool) -> list[list[int]]:
    return beside_a_dropped_stream(0, rolling)


@pytest.mark.parametrize("rolling", [False, True])
@pytest.mark.parametrize("line", range(1, 1300, 11))
def test_a_stream_that_the_garbage_collector_closes_disturbs_no_other_call(line: int, rolling: bool) -> None:
    found, expected = beside_a_dropped_stream(line, rolling), [*without_a_stream(rolling)]
    if rolling and found != expected:
        # A cache that is lost before its keys were moved is computed again.
        expected[0] = alone([*words(5, 14), 9], 4)
    assert found == expected


def test_a_cache_that_loses_its_turn_before_its_keys_were_moved_is_computed_again() -> None:
    """Between the beginning of a stream and its first token, another thread may take its turn."""
    engine = LlamaCppEngine(llama())
    text = words(5, 14)
    expected = engine.new().feed([*text, 9])
    sequence = engine.new()
    sequence.feed([*words(99, 12), *text])
    assert sequence.shift(12)
    engine.new().feed(words(3, 5))
    assert torch.allclose(sequence.feed([9]), expected, atol=1e-4)


def test_a_model_is_freed_when_its_last_user_is_gone() -> None:
    model = llama_cpp.Llama(str(gguf_path()), n_ctx=64, verbose=False)
    gone = weakref.ref(model)
    generate = continuous(model, None)
    state = generate([5, 6], max_new_tokens=1)
    with Session(model) as session:
        session.generate([7, 8], max_new_tokens=1)
    gc.collect()
    gc.disable()
    try:
        del model, session, generate
        assert gone() is not None
        del state
        assert gone() is None
    finally:
        gc.enable()
