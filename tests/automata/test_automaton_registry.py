"""The registry: slots, generations, cached masks and tables; and what equal vocabularies share."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.errors import PatternTooLarge, StaleAutomaton
from logitkit.runtime import shared
from logitkit.runtime.automaton_registry import NEUTRAL, AutomatonRegistry
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.mask_cache import ENTRY_BYTES
from logitkit.runtime.shared import Shared, shared_by
from tests.automata.registry_vocabularies import context, vocabulary


def test_slots_are_used_again_and_stale_states_are_reported() -> None:
    vocab = vocabulary(1)
    first = lk.Regex("a*", vocab)
    state = first.init_state(context())
    registry = first.registry
    assert state.at.slot.item() != NEUTRAL
    # The cache of compiled automata keeps the automaton, but a slot belongs to processors alone.
    del first
    gc.collect()
    second = lk.Regex("b*", vocab)
    later = second.init_state(context())
    assert later.at.slot.item() == state.at.slot.item()
    assert later.at.generation.item() == state.at.generation.item() + 1
    assert len(registry.automata) == 2
    with pytest.raises(StaleAutomaton, match="no longer in the registry; keep the processor"):
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
    registry = first.registry
    first.process_logits(first.init_state(context()), torch.zeros(1, 6), context())
    assert len(registry.masks) == 1
    del first
    gc.collect()
    assert not len(registry.masks)
    assert registry.masks.nbytes == 0


def test_equal_automata_take_one_slot() -> None:
    vocab = vocabulary(4)
    one, other = lk.Regex("aa*", vocab), lk.Regex("a+", vocab)
    assert one.handle().slot == other.handle().slot
    del one
    gc.collect()
    other.process_logits(other.init_state(context()), torch.zeros(1, 6), context())


def test_equal_vocabularies_share_automata_and_registries() -> None:
    one, other = vocabulary(5), vocabulary(5)
    assert one is not other
    assert shared_by(one) is shared_by(other)
    assert lk.Regex("(ab)*", one).automaton is lk.Regex("(ab)*", other).automaton
    assert lk.Choice(["a"], one).registry is lk.Choice(["b"], other).registry
    assert shared_by(one) is not shared_by(vocabulary(6))
    key = one.content_key
    del one, other
    gc.collect()
    assert key not in shared._shared


def test_masks_are_bounded_in_bytes_and_the_oldest_go_first() -> None:
    vocab = lk.Vocabulary([bytes([b]) for b in range(256)] + [None], eos_ids=[256])
    regex = lk.Regex("".join(f"[{chr(65 + i)}-z]" for i in range(20)) + "[0-9]{9}", vocab)
    registry = AutomatonRegistry(mask_bytes=6000)
    handle = registry.register(regex.automaton)
    states = range(2, regex.automaton.states)
    for state in states:
        made = registry.mask(handle.slot, handle.generation, state)
        assert registry.mask(handle.slot, handle.generation, state) is made
        assert registry.masks.nbytes == _nbytes(registry) <= 6000
    assert 1 < len(registry.masks) < len(states)
    assert registry.masks.visited.get((handle.slot, handle.generation, states[-1]))
    assert not registry.masks.visited.get((handle.slot, handle.generation, states[0]))
    before = registry.nbytes()
    assert before >= registry.masks.nbytes + regex.automaton.nbytes
    # Masks for 16 bits make a second row; what was counted already includes it.
    row = np.zeros(257, np.uint16)
    for state in states:
        registry.mask(handle.slot, handle.generation, state).apply(row, 0xFF80, 0)
    assert registry.masks.nbytes == _nbytes(registry) <= 6000


def _nbytes(registry: AutomatonRegistry) -> int:
    masks = [*registry.masks.visited.values()]
    return sum({id(m): m.nbytes for m in masks}.values()) + ENTRY_BYTES * len(masks)


def test_states_that_allow_the_same_share_a_mask() -> None:
    # Equal masks of all automata are one object, so this vocabulary is no other test's.
    vocab = lk.Vocabulary([bytes([255 - b]) for b in range(256)] + [None], eos_ids=[256])
    automaton = lk.Regex("[a-z]{1,40}[A-Z0-9]{40}", vocab).automaton
    registry = AutomatonRegistry()
    handle = registry.register(automaton)
    masks = [registry.mask(handle.slot, handle.generation, state) for state in range(2, automaton.states)]
    # One letter; one letter or capital; capitals alone; the end.
    assert len({id(m) for m in masks}) == len(automaton.masks) == 4
    # So do states of other automata.
    other = lk.Regex("[a-z]{1,9}:[A-Z0-9]{2}", vocab).automaton
    lent = registry.register(other)
    theirs = [registry.mask(lent.slot, lent.generation, state) for state in range(2, other.states)]
    assert len({id(m) for m in masks} & {id(m) for m in theirs}) == 3
    assert registry.masks.nbytes == _nbytes(registry)
    del masks, theirs, handle, lent
    gc.collect()
    assert not automaton.masks
    assert not other.masks
    assert registry.masks.nbytes == 0


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


def test_tables_follow_the_registry() -> None:
    vocab = vocabulary(12)
    one = lk.Regex("a*", vocab)
    state = one.init_state(context())
    registry = one.registry
    tables = registry.tables
    assert registry.tables is tables
    other = lk.Regex("b*", vocab)
    other.init_state(context())
    assert registry.tables.generation.tolist() == [0, 0, 0, -1]
    assert registry.tables.generation.tolist()[int(state.at.slot)] == state.at.generation.item()
    del one
    gc.collect()
    assert registry.tables.generation.tolist()[int(state.at.slot)] == -1


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
