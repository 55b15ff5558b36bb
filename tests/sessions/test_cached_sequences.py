"""Sequences that are ready to go on from are not copied, and are as many as there is room for."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from logitkit.sessions import prefix_tree
from logitkit_adapters.sessions import Session, cached_sequences
from logitkit_adapters.sessions import cached_sequences as ready_sequences
from tests.sessions.alone import alone
from tests.sessions.engines import COPYING, ENGINES, loaded, watched
from tests.sessions.test_caches_that_cannot_be_cut import sliding
from tests.sessions.work import lines_of

SHARED = [280, 661, 509, 277, 372, 81]


def take_turns(name: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[int, Session]:
    """Let three conversations take turns, each as if it were alone; return how often a cache was copied."""
    said = [[*SHARED, 30 + chat] for chat in range(3)]
    copied = 0
    with Session(*loaded(name), max_length=256, **options) as session:
        engine = session._engine
        whole = engine.restore

        def watched(*given: Any) -> Any:
            nonlocal copied
            copied += 1
            return whole(*given)

        monkeypatch.setattr(engine, "restore", watched)
        for turn in range(4):
            for chat, tokens in enumerate(said):
                (row,) = session.generate(tokens, max_new_tokens=5).rows
                assert row.token_ids == alone(name, tokens, 5)
                said[chat] = [*tokens, *row.token_ids, 7, 8]
                if turn == 1:
                    # At first, they begin with one another's.
                    copied = 0
    return copied, session


@pytest.mark.parametrize("name", COPYING)
def test_conversations_in_turns_are_gone_on_from_without_a_copy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copied, session = take_turns(name, monkeypatch)
    # llama.cpp has one context, from which and to which a cache is copied.
    assert copied == (6 if name == "llama.cpp" else 0)
    assert list(session._cached._ready.held) == []  # it is closed


@pytest.mark.parametrize("name", ["transformers", "mlx-lm"])
@pytest.mark.parametrize("ready", [0, 30])
def test_there_is_room_for_some_only(name: str, ready: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_sequences, "READY", ready)
    held: list[int] = []
    whole = cached_sequences.CachedSequences.keep

    def watched(self: Any, *given: Any) -> None:
        whole(self, *given)
        held.append(sum(len(tokens) for tokens in self._ready.held if tokens != self._last))

    monkeypatch.setattr(cached_sequences.CachedSequences, "keep", watched)
    copied, _ = take_turns(name, monkeypatch)
    assert copied > 0
    assert max(held) <= ready


@pytest.mark.parametrize("name", ["transformers", "mlx-lm"])
def test_what_is_no_longer_cached_is_not_ready_either(name: str) -> None:
    with Session(*loaded(name), max_length=64, max_cached_tokens=25) as session:
        for chat in range(4):
            session.generate([*SHARED, 30 + chat, 31, 32], max_new_tokens=6)
            ready = list(session._cached._ready.held)
            assert all(session._cached._tree.get(tokens) is not None for tokens in ready)
            assert sum(map(len, ready)) <= 25 + len(SHARED)
        session.position = 3
        (row,) = session.generate([*SHARED, 33, 31, 32], max_new_tokens=6).rows
        assert row.token_ids == alone(name, [*SHARED, 33, 31, 32], 6)


@pytest.mark.parametrize("name", ENGINES)
def test_of_a_conversation_that_is_too_long_the_beginning_is_kept(name: str) -> None:
    prompt = [*SHARED, *range(40, 70)]
    with Session(*loaded(name), max_length=256, max_cached_tokens=30) as session:
        for turn in range(3):
            (row,) = session.generate(prompt, max_new_tokens=4).rows
            assert row.token_ids == alone(name, prompt, 4)
            assert row.cached_tokens == (30 if turn else 0)
            assert session.cached_tokens == session.position == 30
            prompt = [*prompt, *row.token_ids, 7, 8]
        # Another one takes its place.
        with watched(loaded(name)[0]) as fed:
            (row,) = session.generate(range(100, 140), max_new_tokens=2).rows
        assert (sum(fed), session.cached_tokens) == (41, 30)


@pytest.mark.parametrize("name", ["transformers", "mlx-lm"])
def test_what_is_cut_off_is_not_held_in_memory_of_what_is_kept(name: str) -> None:
    with Session(*loaded(name), max_length=256, max_cached_tokens=20) as session:
        session.generate([*SHARED, *range(40, 100)], max_new_tokens=2)
        (entry,) = session._cached._tree.entries()
        saved: Any = entry.value.saved
        (segment,) = saved.segments
        assert segment.length == 20
        for keys, _ in segment.layers:
            assert keys.shape[2] == 20
            if name == "transformers":
                assert keys.untyped_storage().nbytes() == keys.numel() * keys.element_size()


@pytest.mark.parametrize("most", [10_000, 200], ids=["all fit", "the oldest go"])
@pytest.mark.parametrize("kind", ["plain", "sliding window"])
def test_a_call_does_no_more_work_after_many_conversations_that_begin_alike(kind: str, most: int) -> None:
    draw = random.Random(0)
    model = loaded("transformers")[0] if kind == "plain" else sliding()
    lines = []
    with Session(model, max_length=64, max_cached_tokens=most) as session:
        for _ in range(300):
            prompt = [*SHARED, *(draw.randrange(3, 1280) for _ in range(6))]
            call = partial(session.generate, prompt, max_new_tokens=1)
            lines.append(lines_of(call, prefix_tree, cached_sequences, ready_sequences))
    assert max(lines[-20:]) <= 1.5 * max(lines[30:50])
