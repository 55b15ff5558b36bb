"""The tables of a registry on a device: automata come and go in them, and the rows of others do not notice."""

from __future__ import annotations

import gc
import random
import weakref

import pytest
import torch

import logitkit as lk
from logitkit.errors import BankFull
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.device_rows import mask_on_device
from logitkit.runtime.registry_layout import RegistryLayout
from logitkit.runtime.registry_tables import advance_tensors
from tests.automata.host_path import advance_rows, mask_on_host

PATTERNS = ("a*", "(ab|b)+", "[^b]{1,9}a", "(?!aa)[ab]{2,40}", "b?", "(a|b)*a(a|b){5}")


def vocabulary(tag: int) -> lk.Vocabulary:
    """Return a small vocabulary; each tag is another content, so that no test meets the registry of another."""
    return lk.Vocabulary([b"a", b"b", b"ab", None, f"layout {tag}".encode()], eos_ids=[3])


def context(rows: int = 1) -> lk.Context:
    return lk.Context.of([[]] * rows, vocabulary_size=5)


@pytest.mark.parametrize("seed", range(3))
def test_automata_come_and_go(seed: int) -> None:
    """In any order the tables say what the automata say."""
    chance = random.Random(seed)
    vocab = vocabulary(seed)
    constraints: list[lk.Regex | lk.BannedStrings] = []
    states: list[AutomatonState] = []
    registry = lk.Regex("ab", vocab).registry
    for step in range(30):
        if constraints and chance.random() < 0.35:
            gone = chance.randrange(len(constraints))
            del constraints[gone], states[gone]
            gc.collect()
        elif chance.random() < 0.2:
            constraints.append(lk.BannedStrings(["ab" * chance.randint(1, 9), "bbb"], vocab))
            states.append(constraints[-1].init_state(context()).at)
        else:
            constraints.append(lk.Regex(f"{chance.choice(PATTERNS)}(?:{'a' * step})?", vocab))
            states.append(constraints[-1].init_state(context()).at)
        if not states:
            continue
        tokens = torch.tensor([chance.choice([0, 1, 2, 3, -1, 7]) for _ in states])
        together = lk.concatenate(states)
        moved = advance_rows(registry, together, tokens)
        assert torch.equal(advance_tensors(registry.tables, *together, tokens), moved)
        after = together._replace(state=moved)
        logits = torch.randn(len(states), 6)
        assert torch.equal(
            mask_on_device(registry.layout_on(logits.device), after.positions, logits.clone()),
            mask_on_host(registry, after, logits.clone()),
        )
        states = [lk.select(after, torch.tensor([row])) for row in range(len(states))]


def test_an_automaton_that_has_room_is_written_in_place() -> None:
    vocab = vocabulary(100)
    kept = [lk.Regex(f"a{{{n}}}b*", vocab) for n in range(1, 4)]
    states = lk.concatenate([regex.init_state(context()) for regex in kept])
    registry = kept[0].registry
    before = registry.tables
    small = lk.Regex("a", vocab)
    small.init_state(context())
    # Three and the neutral one fill four slots; the next needs more, the one after it has room.
    assert registry.tables.class_of is not before.class_of
    doubled = registry.tables
    other = lk.Regex("b", vocab)
    other.init_state(context())
    assert registry.tables.class_of is doubled.class_of
    assert doubled.generation.tolist() == [0, 0, 0, 0, 0, 0, -1, -1]
    del small
    gc.collect()
    assert registry.tables.class_of is doubled.class_of
    assert doubled.generation.tolist() == [0, 0, 0, 0, -1, 0, -1, -1]
    tokens = torch.tensor([0, 0, 1])
    assert (
        advance_tensors(registry.tables, *states.at, tokens).tolist()
        == advance_rows(registry, states.at, tokens).tolist()
    )


def test_a_state_of_a_slot_that_was_written_again_is_dead() -> None:
    vocab = vocabulary(101)
    stays = lk.Regex("b*", vocab)
    stays.init_state(context())
    gone = lk.Regex("a*", vocab)
    state = gone.init_state(context())
    registry = gone.registry
    assert advance_tensors(registry.tables, *state.at, torch.tensor([0])).item() >= 2
    del gone
    gc.collect()
    later = lk.Regex("aa*", vocab)
    assert later.init_state(context()).at.slot.item() == state.at.slot.item()
    assert advance_tensors(registry.tables, *state.at, torch.tensor([0])).item() == 0


def test_the_automata_in_use_are_bounded() -> None:
    vocab = vocabulary(102)
    first = lk.Regex("a*", vocab)
    first.init_state(context())
    registry = first.registry
    registry.automaton_bytes = registry.nbytes() + 10
    second = lk.Regex("b*", vocab)
    with pytest.raises(
        BankFull, match=r"take [\d,]+ bytes, and another one of [\d,]+ would exceed [\d,]+; drop processors"
    ):
        second.init_state(context())
    # An automaton that is already there needs no more space, and freed space is released.
    lk.Regex("a*", vocab).init_state(context())
    del first
    gc.collect()
    assert second.init_state(context()).at.slot.item() == 1


def test_tables_that_inference_mode_made_are_written_outside_of_it() -> None:
    vocab = vocabulary(103)
    kept = [lk.Regex(f"a{{{n}}}b", vocab) for n in range(2, 6)]
    registry = kept[0].registry
    with torch.inference_mode():
        for regex in kept:
            regex.init_state(context())
        made = registry.tables
    later = lk.Regex("b", vocab)
    state = later.init_state(context())
    assert registry.tables.class_of is made.class_of
    assert advance_tensors(registry.tables, *state.at, torch.tensor([1])).item() >= 2


def test_what_could_not_be_written_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    vocab = vocabulary(104)
    kept = [lk.Regex(f"a{{{n}}}b", vocab) for n in range(1, 5)]
    for regex in kept:
        regex.init_state(context())
    registry = kept[0].registry
    assert len(registry.tables.generation) == 8
    later = lk.Regex("b", vocab)
    state = later.init_state(context())
    with monkeypatch.context() as patch:

        def no_room(*_: object) -> bool:
            raise torch.OutOfMemoryError("no memory is left on the device")

        patch.setattr(RegistryLayout, "put", no_room)
        with pytest.raises(torch.OutOfMemoryError):
            _ = registry.tables
    assert advance_tensors(registry.tables, *state.at, torch.tensor([1])).item() >= 2


@pytest.mark.parametrize("captured", [False, True])
def test_tables_stay_for_a_graph_that_was_captured_with_them(monkeypatch: pytest.MonkeyPatch, captured: bool) -> None:
    """A graph has their addresses, but tables with more room take their place, and their memory would be freed."""
    vocab, cpu = vocabulary(104 + captured), torch.device("cpu")
    kept = [lk.Regex("(ab|b)+", vocab)]
    registry, state = kept[0].registry, kept[0].init_state(context()).at
    with monkeypatch.context() as capturing:
        capturing.setattr(RegistryLayout, "is_being_captured", lambda self: captured)
        before = weakref.ref(registry.layout_on(cpu))
    for count in range(2, 9):
        kept.append(lk.Regex(f"a{{{count}}}b", vocab))
        kept[-1].init_state(context())
    assert registry.layout_on(cpu) is not before()
    gc.collect()
    old = before()
    assert (old is not None) is captured
    if old is not None:
        for token in torch.tensor([[0], [1]]):
            assert advance_tensors(old.tables, *state, token).equal(advance_tensors(registry.tables, *state, token))
        assert registry.nbytes() > old.nbytes() + registry.layout_on(cpu).nbytes()
