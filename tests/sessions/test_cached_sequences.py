"""Sequences that are ready to go on from are not copied, and are as many as there is room for."""

from __future__ import annotations

from typing import Any

import pytest

from logitkit_adapters.sessions import Session, cached_sequences
from tests.sessions.alone import alone
from tests.sessions.engines import ENGINES, loaded

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


@pytest.mark.parametrize("name", ENGINES)
def test_conversations_in_turns_are_gone_on_from_without_a_copy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copied, session = take_turns(name, monkeypatch)
    # llama.cpp has one context, from which and to which a cache is copied.
    assert copied == (6 if name == "llama.cpp" else 0)
    assert session._cached._live == {}  # it is closed


@pytest.mark.parametrize("name", ["transformers", "mlx-lm"])
@pytest.mark.parametrize("ready", [0, 30])
def test_there_is_room_for_some_only(name: str, ready: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_sequences, "READY", ready)
    held: list[int] = []
    whole = cached_sequences.CachedSequences._hold_ready

    def watched(self: Any, sequence: Any) -> None:
        whole(self, sequence)
        held.append(sum(len(tokens) for tokens in self._live if tokens != self._last))

    monkeypatch.setattr(cached_sequences.CachedSequences, "_hold_ready", watched)
    copied, _ = take_turns(name, monkeypatch)
    assert copied > 0
    assert max(held) <= ready


@pytest.mark.parametrize("name", ["transformers", "mlx-lm"])
def test_what_is_no_longer_cached_is_not_ready_either(name: str) -> None:
    with Session(*loaded(name), max_length=64, max_cached_tokens=25) as session:
        for chat in range(4):
            session.generate([*SHARED, 30 + chat, 31, 32], max_new_tokens=6)
            ready = list(session._cached._live)
            assert all(session._cached._tree.get(tokens) is not None for tokens in ready)
            assert sum(map(len, ready)) <= 25 + len(SHARED)
        session.position = 3
        (row,) = session.generate([*SHARED, 33, 31, 32], max_new_tokens=6).rows
        assert row.token_ids == alone(name, [*SHARED, 33, 31, 32], 6)
