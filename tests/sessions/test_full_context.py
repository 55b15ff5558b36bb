"""llama.cpp has one context for all sequences: full to the last position, it neither fails nor says something else."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.demo import gguf_path
from logitkit_adapters.sessions import Session, continuous
from tests.sessions.alone import alone

# llama.cpp makes no smaller one.
FULL = 256


@cache
def small() -> Any:
    """Return a `Llama` whose context is small, and takes a prompt in several batches."""
    import llama_cpp

    return llama_cpp.Llama(
        str(gguf_path()), n_ctx=FULL, n_batch=16, n_threads=1, n_threads_batch=1, type_k=0, type_v=0, verbose=False
    )


def prompt(seed: int, length: int) -> list[int]:
    draw = random.Random(seed)
    return [draw.randrange(5, 1200) for _ in range(length)]


@pytest.mark.parametrize("rolling", [False, True])
@pytest.mark.parametrize("room", [1, 2, 7])
def test_conversations_that_fill_the_context_take_turns(rolling: bool, room: int) -> None:
    model = small()
    assert model.n_ctx() == FULL
    shared = prompt(0, 20)
    rows = [[*shared, *prompt(seed, FULL - room - 20)] for seed in range(1, 6)]
    with Session(model, rolling=rolling) as session:
        assert session.max_length == FULL
        for turn in range(3):
            for row in rows:
                (found,) = session.generate(row, max_new_tokens=room).rows
                assert found.token_ids == alone("llama.cpp", row, room)
                assert found.cached_tokens >= (0 if turn == 0 else FULL - room - 1)
                assert session.position <= FULL
        # All five, which no context of this size holds at once.
        assert session.cached_tokens > 3 * FULL
        with pytest.raises(ConfigurationError, match=f"more than max_length={FULL}"):
            session.generate(rows[0], max_new_tokens=room + 1)
        (found,) = session.generate(rows[0][:5], max_new_tokens=3).rows
        assert found.token_ids == alone("llama.cpp", rows[0][:5], 3)


def test_a_full_context_is_rolled() -> None:
    with Session(small(), rolling=True) as session:
        row = prompt(3, FULL - 2)
        for turn in range(4):
            (found,) = session.generate(row, max_new_tokens=2).rows
            # The head goes, as a chat does that has become too long.
            held = [*row, *found.token_ids][10:]
            row = [*held, *prompt(turn, FULL - 2 - len(held))]
            (rolled,) = session.generate(row, max_new_tokens=2).rows
            assert rolled.reuse.start == 10
            assert len(rolled.token_ids) in (1, 2)


@pytest.mark.parametrize("bound", [0, 30, FULL, 10_000])
def test_any_bound_on_what_is_cached_serves_a_full_context(bound: int) -> None:
    rows = [prompt(seed, FULL - 3) for seed in range(3)]
    with Session(small(), max_cached_tokens=bound) as session:
        for row in rows * 2:
            (found,) = session.generate(row, max_new_tokens=3).rows
            assert found.token_ids == alone("llama.cpp", row, 3)
            assert session.cached_tokens <= bound


@pytest.mark.parametrize(
    "options", [{}, {"num_samples": 4, "seed": 1}, {"num_beams": 4}], ids=["greedy", "drawn", "beams"]
)
def test_states_that_fill_the_context_go_on(options: dict[str, Any]) -> None:
    text = continuous(small(), None, lk.BanTokens([small().token_eos()]), **options)
    prompts = ["The price of tea is 1.25 euros. " * 19, "Item: pen\nPrice: " * 3]
    begun = text(prompts, max_new_tokens=3)
    longest = max(map(len, begun.rows))
    assert FULL - 40 < longest < FULL
    found = text(begun, max_new_tokens=FULL - longest)
    assert max(map(len, found.rows)) == FULL
    assert found.rows == text(replace(begun, kv_cache=None, cached=0), max_new_tokens=FULL - longest).rows
    with pytest.raises(ConfigurationError, match=f"more than the model's {FULL} positions"):
        text(begun, max_new_tokens=FULL - longest + 1)
    # Earlier results do not change.
    assert text(begun, max_new_tokens=2).rows == text(begun, max_new_tokens=2).rows


def test_a_cache_that_llama_cpp_does_not_take_back_is_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    import llama_cpp

    rows = [prompt(seed, FULL - 3) for seed in range(2)]
    with Session(small()) as session:
        for row in rows:
            session.generate(row, max_new_tokens=3)
        monkeypatch.setattr(llama_cpp, "llama_state_seq_set_data", lambda *_: 0)
        for row in rows:
            (found,) = session.generate(row, max_new_tokens=3).rows
            assert found.token_ids == alone("llama.cpp", row, 3)
            assert found.positions_fed >= FULL - 3
