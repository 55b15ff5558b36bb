"""The registry in several threads: each automaton is compiled once, and no thread sees the mask of another automaton."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pytest
import torch

import logitkit as lk
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.runtime.automaton_registry import AutomatonRegistry
from logitkit.runtime.shared import Shared, shared_by
from tests.automata.registry_vocabularies import LETTERS, context, vocabulary


def test_a_slot_freed_while_its_mask_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    vocab = vocabulary(3)
    one, other = lk.Regex("a*", vocab).automaton, lk.Regex("b*", vocab).automaton
    registry = AutomatonRegistry()
    handle = registry.register(one)
    slot, generation = handle.slot, handle.generation
    handles = [handle]
    del handle
    legal_classes = TokenAutomaton.legal_classes

    def free_meanwhile(self: TokenAutomaton, state: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        handles.clear()
        gc.collect()
        return legal_classes(self, state)

    monkeypatch.setattr(TokenAutomaton, "legal_classes", free_meanwhile)
    registry.mask(slot, generation, one.start)
    monkeypatch.undo()
    again = registry.register(other)
    assert again.slot == slot
    row = np.zeros(6, np.float32)
    registry.mask(slot, again.generation, other.start).apply(row, -np.inf, 0.0)
    assert np.isfinite(row).tolist() == [False, True, False, True, False, False]


def test_threads_that_want_one_pattern_compile_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    vocab = vocabulary(7)
    calls: list[str] = []
    compile_ = lk.Regex._compile

    def counted(self: lk.Regex) -> TokenAutomaton:
        calls.append(self.pattern)
        time.sleep(0.05)
        return compile_(self)

    monkeypatch.setattr(lk.Regex, "_compile", counted)
    barrier = threading.Barrier(8)
    made: list[lk.Regex] = []

    def work() -> None:
        barrier.wait()
        made.append(lk.Regex("(a|b){3}", vocab))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == ["(a|b){3}"]
    assert len({id(regex.automaton) for regex in made}) == 1
    assert len(made) == 8


def test_whenever_another_thread_asks_it_compiles_nothing() -> None:
    automaton = lk.Regex("a", vocabulary(8)).automaton
    cache = Shared()
    calls: list[int] = []
    late: list[threading.Thread] = []

    def compile_() -> TokenAutomaton:
        calls.append(1)
        return automaton

    class AskAfterwards:
        """A lock after each release of which another thread asks for the same key, and has time to compile it."""

        def __init__(self) -> None:
            self.lock = threading.Lock()

        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()
            if calls and threading.current_thread() is threading.main_thread():
                late.append(threading.Thread(target=cache.automaton, args=("key", compile_)))
                late[-1].start()
                late[-1].join(0.1)

    cache._lock = AskAfterwards()  # type: ignore[assignment]
    cache.automaton("key", compile_)
    for thread in late:
        thread.join()
    assert late
    assert len(calls) == 1


def test_threads_register_mask_and_free() -> None:
    vocab = vocabulary(11)
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(30):
                word = format(2 + (seed * 31 + i) % 13, "b").replace("0", "a").replace("1", "b")
                regex = lk.Regex(f"({word})*", vocab)
                state = regex.advance(regex.init_state(context()), torch.tensor([LETTERS.index(word[:1].encode())]))
                row = regex.process_logits(state, torch.zeros(1, 6), context())[1][0]
                expected = [word[1:2] == "a", word[1:2] == "b", False, False]
                if word[1:3] == "ab" or (len(word) == 2 and word[1] + word[0] == "ab"):
                    expected[2] = True
                assert torch.isfinite(row[:4]).tolist() == expected, word
        except BaseException as error:  # noqa: BLE001 - reported by the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    gc.collect()
    assert len(shared_by(vocab).registry.automata) <= 14
