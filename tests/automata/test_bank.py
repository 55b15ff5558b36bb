"""The bank: slots, generations, cached masks and tables; and what equal vocabularies share."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pytest
import torch

import logitkit as lk
from logitkit.compiler import DEAD, TokenAutomaton
from logitkit.errors import PatternTooLarge, StaleAutomaton
from logitkit.runtime import NEUTRAL, AutomatonState, Bank, Shared, shared, shared_by
from logitkit.runtime.mask_cache import ENTRY_BYTES

CPU = torch.device("cpu")
LETTERS: list[bytes | None] = [b"a", b"b", b"ab", None]


def vocabulary(tag: int = 0) -> lk.Vocabulary:
    """Return a small vocabulary; each tag is another content, so that no test meets the bank of another."""
    return lk.Vocabulary([*LETTERS, *(f"t{tag}-{i}".encode() for i in range(2))], eos_ids=[3])


def context(rows: int = 1) -> lk.Context:
    return lk.Context.of([[]] * rows, vocabulary_size=6)


def test_slots_are_used_again_and_stale_states_are_reported() -> None:
    vocab = vocabulary(1)
    first = lk.Regex("a*", vocab)
    state = first.init_state(context())
    bank = first.bank
    assert state.at.slot.item() != NEUTRAL
    # The cache of compiled automata keeps the automaton, but a slot belongs to processors alone.
    del first
    gc.collect()
    second = lk.Regex("b*", vocab)
    later = second.init_state(context())
    assert later.at.slot.item() == state.at.slot.item()
    assert later.at.generation.item() == state.at.generation.item() + 1
    assert len(bank.automata) == 2
    with pytest.raises(StaleAutomaton, match="no longer in the bank; keep the processor"):
        second.process_logits(state, torch.zeros(1, 6), context())
    with pytest.raises(StaleAutomaton):
        second.advance(state, torch.tensor([0]))
    with pytest.raises(StaleAutomaton):
        second.advance(state._replace(at=state.at._replace(slot=torch.tensor([7]))), torch.tensor([0]))
    processed = second.process_logits(later, torch.zeros(1, 6), context())[1]
    assert torch.isfinite(processed).tolist() == [[False, True, False, True, False, False]]


def test_freeing_a_slot_removes_its_masks() -> None:
    vocab = vocabulary(2)
    first = lk.Regex("a*", vocab)
    bank = first.bank
    first.process_logits(first.init_state(context()), torch.zeros(1, 6), context())
    assert len(bank.masks) == 1
    del first
    gc.collect()
    assert not len(bank.masks)
    assert bank.masks.nbytes == 0


def test_a_slot_freed_while_its_mask_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    vocab = vocabulary(3)
    one, other = lk.Regex("a*", vocab).automaton, lk.Regex("b*", vocab).automaton
    bank = Bank()
    lease = bank.lease(one)
    slot, generation = lease.slot, lease.generation
    leases = [lease]
    del lease
    legal_classes = TokenAutomaton.legal_classes

    def free_meanwhile(self: TokenAutomaton, state: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        leases.clear()
        gc.collect()
        return legal_classes(self, state)

    monkeypatch.setattr(TokenAutomaton, "legal_classes", free_meanwhile)
    bank.mask(slot, generation, one.start)
    monkeypatch.undo()
    again = bank.lease(other)
    assert again.slot == slot
    row = np.zeros(6, np.float32)
    bank.mask(slot, again.generation, other.start).apply(row, -np.inf, 0.0)
    assert np.isfinite(row).tolist() == [False, True, False, True, False, False]


def test_equal_automata_take_one_slot() -> None:
    vocab = vocabulary(4)
    one, other = lk.Regex("aa*", vocab), lk.Regex("a+", vocab)
    assert one.lease().slot == other.lease().slot
    del one
    gc.collect()
    other.process_logits(other.init_state(context()), torch.zeros(1, 6), context())


def test_equal_vocabularies_share_automata_and_banks() -> None:
    one, other = vocabulary(5), vocabulary(5)
    assert one is not other
    assert shared_by(one) is shared_by(other)
    assert lk.Regex("(ab)*", one).automaton is lk.Regex("(ab)*", other).automaton
    assert lk.Choice(["a"], one).bank is lk.Choice(["b"], other).bank
    assert shared_by(one) is not shared_by(vocabulary(6))
    key = one.content_key
    del one, other
    gc.collect()
    assert key not in shared._shared


def test_masks_are_bounded_in_bytes_and_the_oldest_go_first() -> None:
    vocab = lk.Vocabulary([bytes([b]) for b in range(256)] + [None], eos_ids=[256])
    regex = lk.Regex("".join(f"[{chr(65 + i)}-z]" for i in range(20)) + "[0-9]{9}", vocab)
    bank = Bank(mask_bytes=6000)
    lease = bank.lease(regex.automaton)
    states = range(2, regex.automaton.states)
    for state in states:
        made = bank.mask(lease.slot, lease.generation, state)
        assert bank.mask(lease.slot, lease.generation, state) is made
        assert bank.masks.nbytes == _nbytes(bank) <= 6000
    assert 1 < len(bank.masks) < len(states)
    assert bank.masks.visited.get((lease.slot, lease.generation, states[-1]))
    assert not bank.masks.visited.get((lease.slot, lease.generation, states[0]))
    before = bank.nbytes()
    assert before >= bank.masks.nbytes + regex.automaton.nbytes
    # Masks for 16 bits make a second row; what was counted already includes it.
    row = np.zeros(257, np.uint16)
    for state in states:
        bank.mask(lease.slot, lease.generation, state).apply(row, 0xFF80, 0)
    assert bank.masks.nbytes == _nbytes(bank) <= 6000


def _nbytes(bank: Bank) -> int:
    masks = [*bank.masks.visited.values()]
    return sum({id(m): m.nbytes for m in masks}.values()) + ENTRY_BYTES * len(masks)


def test_states_that_allow_the_same_share_a_mask() -> None:
    # Equal masks of all automata are one object, so this vocabulary is no other test's.
    vocab = lk.Vocabulary([bytes([255 - b]) for b in range(256)] + [None], eos_ids=[256])
    automaton = lk.Regex("[a-z]{1,40}[A-Z0-9]{40}", vocab).automaton
    bank = Bank()
    lease = bank.lease(automaton)
    masks = [bank.mask(lease.slot, lease.generation, state) for state in range(2, automaton.states)]
    # One letter; one letter or capital; capitals alone; the end.
    assert len({id(m) for m in masks}) == len(automaton.masks) == 4
    # So do states of other automata.
    other = lk.Regex("[a-z]{1,9}:[A-Z0-9]{2}", vocab).automaton
    lent = bank.lease(other)
    theirs = [bank.mask(lent.slot, lent.generation, state) for state in range(2, other.states)]
    assert len({id(m) for m in masks} & {id(m) for m in theirs}) == 3
    assert bank.masks.nbytes == _nbytes(bank)
    del masks, theirs, lease, lent
    gc.collect()
    assert not automaton.masks
    assert not other.masks
    assert bank.masks.nbytes == 0


def test_rows_that_are_remembered_keep_no_mask_of_a_constraint_that_is_gone() -> None:
    vocab = lk.Vocabulary([bytes([255 - b]) for b in range(256)] + [None], eos_ids=[256])
    regex = lk.Regex("[b-y]+", vocab)
    context = lk.Context.of([[]], vocab.size)
    regex.process_logits(regex.init_state(context), torch.zeros(1, vocab.size), context)
    automaton = regex.automaton
    assert len(automaton.masks) == 1
    del regex, context
    gc.collect()
    assert not automaton.masks


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


def test_a_failed_compilation_is_not_remembered() -> None:
    vocab = vocabulary(9)
    small = lk.Limits(states=3)
    for _ in range(2):
        with pytest.raises(PatternTooLarge):
            lk.Regex("(a|b){9}", vocab, limits=small)
    assert not shared_by(vocab)._in_work
    assert lk.Regex("(a|b){9}", vocab).automaton.states > 3


def test_compiled_automata_are_bounded_in_number_and_bytes() -> None:
    automaton = lk.Regex("a", vocabulary(10)).automaton
    few = Shared(cached=3)
    for key in range(10):
        few.automaton(key, lambda: automaton)
    assert list(few._automata) == [7, 8, 9]
    size = few._bytes // 3
    small = Shared(cached_bytes=2 * size)
    for key in range(10):
        small.automaton(key, lambda: automaton)
    assert list(small._automata) == [8, 9]
    small.automaton(8, lambda: pytest.fail("compiled again"))
    small.automaton(10, lambda: automaton)
    assert list(small._automata) == [8, 10]


def test_threads_lease_mask_and_free() -> None:
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
    assert len(shared_by(vocab).bank.automata) <= 14


def test_tables_follow_the_bank() -> None:
    vocab = vocabulary(12)
    one = lk.Regex("a*", vocab)
    state = one.init_state(context())
    bank = one.bank
    tables = bank.tables
    assert bank.tables is tables
    other = lk.Regex("b*", vocab)
    other.init_state(context())
    assert bank.tables.generation.tolist() == [0, 0, 0, -1]
    assert bank.tables.generation.tolist()[int(state.at.slot)] == state.at.generation.item()
    del one
    gc.collect()
    assert bank.tables.generation.tolist()[int(state.at.slot)] == -1


def test_slot_zero_constrains_nothing() -> None:
    vocab = vocabulary(13)
    regex = lk.Regex("a", vocab)
    constrained = regex.init_state(context())
    at = AutomatonState(*(torch.zeros(1, dtype=torch.int64) for _ in range(3)))
    free = constrained._replace(at=at)
    both = lk.concatenate([free, constrained])
    both = regex.advance(both, torch.tensor([5, 5]))
    logits = torch.arange(12.0).reshape(2, 6)
    processed = regex.process_logits(both, logits.clone(), context(2))[1]
    assert torch.equal(processed[0], logits[0])
    assert both.at.state.tolist() == [0, DEAD]
    assert processed[1].tolist() == [-torch.inf] * 3 + [0.0] + [-torch.inf] * 2
