"""Saved states: whole or refused, and bound to the automata of the process that loads them."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import safetensors.torch
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError, StaleAutomaton, StateFileError
from logitkit.protocol import leaves
from logitkit.runtime.constraint_state import ConstraintState
from tests.core.misbehaving import Counter
from tests.core.state_files import BOTH, PENALTY, TWO, VOCABULARY, context, refuse, rewrite, some_state
from tests.registry import BOS, EOS, ids, vocabulary

SAVED_BY_0_2 = Path(__file__).parent / "saved_by_0_2"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.safetensors"


@pytest.fixture
def saved(path: Path) -> Path:
    lk.save_state(path, some_state(BOTH), BOTH)
    return path


def test_a_state_is_what_it_was(saved: Path) -> None:
    state, loaded = some_state(BOTH), lk.load_state(str(saved), BOTH)
    assert isinstance(loaded[1], ConstraintState)
    assert type(loaded[0]) is type(state[0])
    assert loaded[0].occurred.ids.equal(state[0].occurred.ids)
    assert loaded[1].at.state.equal(state[1].at.state)
    logits = BOTH.process_logits(loaded, torch.ones(2, 4), context())[1]
    assert logits.equal(BOTH.process_logits(state, torch.ones(2, 4), context())[1])


@pytest.mark.parametrize("rows", [1, 3])
def test_a_state_of_tensors_with_strides_is_saved(path: Path, rows: int) -> None:
    """One number counts as contiguous with any stride."""
    state = PENALTY.init_state(lk.Context.of([[1, 2]] * rows, 4))
    wide = torch.tensor([[1.5, 0.0]] * rows, dtype=torch.float64)
    lk.save_state(path, state._replace(penalty=wide[:, 0]), PENALTY)
    assert lk.load_state(path, PENALTY).penalty.tolist() == [1.5] * rows


def test_other_tools_can_read_the_file(saved: Path) -> None:
    tensors = safetensors.torch.load_file(saved)
    assert sorted(tensors) == [
        *("state.0.history.grows", "state.0.history.length", "state.0.history.tokens", "state.0.history.window"),
        *(f"state.0.occurred.{name}" for name in ("counted", "counts", "grows", "ids", "number")),
        "state.0.penalty",
        *("state.1.at.generation", "state.1.at.slot", "state.1.at.state", "state.1.left", "state.1.stack"),
    ]
    assert tensors["state.0.occurred.number"].tolist() == [2, 2]


def test_saving_replaces_the_file_and_leaves_nothing_behind(saved: Path) -> None:
    lk.save_state(saved, some_state(BOTH, 3), BOTH)
    assert len(lk.load_state(saved, BOTH)[0].penalty) == 3
    assert list(saved.parent.iterdir()) == [saved]


def test_saving_that_fails_keeps_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        lk.save_state(saved, some_state(BOTH, 3), BOTH)
    assert list(saved.parent.iterdir()) == [saved]
    assert len(lk.load_state(saved, BOTH)[0].penalty) == 2


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_any_number_of_rows(path: Path, rows: int) -> None:
    state = lk.select(some_state(BOTH), torch.zeros(rows, dtype=torch.int64))
    lk.save_state(path, state, BOTH)
    assert lk.load_state(path, BOTH)[1].at.state.equal(state[1].at.state)


def test_states_without_tensors(path: Path) -> None:
    nothing = lk.chain(lk.Stateless(lambda logits, _: logits), lk.Stateless(lambda logits, _: logits))
    lk.save_state(path, ((), ()), nothing)
    assert lk.load_state(path, nothing) == ((), ())


class Half(NamedTuple):
    value: Tensor


class Odd(NamedTuple):
    halves: tuple[Half, Half, Half]
    flag: Tensor


class AnyState(Counter):
    """Has a state of nested tuples, of dtypes that need care, whose fields share memory or lie across it."""

    def init_state(self, context: lk.Context) -> Odd:
        value = torch.full((context.batch_size, 1), 1.5, dtype=torch.bfloat16).expand(-1, 3)
        across = torch.arange(3 * context.batch_size).reshape(3, -1).t().to(torch.bfloat16)
        return Odd((Half(value), Half(value), Half(across)), torch.ones(context.batch_size, dtype=torch.bool))


def test_nested_tuples_and_all_dtypes(path: Path) -> None:
    state = AnyState().init_state(context())
    lk.save_state(path, state, AnyState())
    loaded = lk.load_state(path, AnyState())
    assert isinstance(loaded, Odd)
    assert isinstance(loaded.halves[1], Half)
    assert [half.value.tolist() for half in loaded.halves] == [half.value.tolist() for half in state.halves]
    assert loaded.flag.equal(state.flag)


def test_automata_are_found_by_content_wherever_they_are_now(path: Path) -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", b"c", None, None], eos_ids=[3])
    first, second = lk.Regex("a{4}", vocabulary), lk.Regex("[ab]{5}", vocabulary)
    state = lk.concatenate([some_state(first), some_state(second, 1)])
    neutral = first.neutral_state(context(1))
    state = lk.concatenate([state, neutral])
    lk.save_state(path, state, first)
    before = state.at.slot.tolist()
    # In a registry of its own, where the places are others.
    del first, second, vocabulary
    vocabulary = lk.Vocabulary([b"a", b"b", b"c", None, None], eos_ids=[3])
    processors = [lk.Regex(pattern, vocabulary) for pattern in ("c", "[ab]{5}", "b", "a{4}")]
    for processor in processors:
        processor.init_state(context())
    loaded = lk.load_state(path, processors[3])
    assert loaded.at.slot.tolist() == [4, 4, 2, 0] != before
    assert loaded.at.state.equal(state.at.state)
    logits = processors[3].process_logits(loaded, torch.ones(4, 5), context())[1]
    allowed = [row.isfinite().nonzero().flatten().tolist() for row in logits]
    assert allowed == [[0], [0], [0, 1], [0, 1, 2, 3, 4]]


def test_an_automaton_that_is_not_there_is_named(path: Path) -> None:
    lk.save_state(path, some_state(TWO), TWO)
    key = TWO.automaton.content_key
    elsewhere = lk.Regex("a{2}", lk.Vocabulary([b"a", b"b", b"c", None], eos_ids=[3], pad_id=0))
    refuse(path, elsewhere, f"automaton '{key}'.*{elsewhere.automaton.content_key}.*same arguments, vocabulary")


def test_a_state_of_which_no_row_is_the_processors_own_is_refused(path: Path) -> None:
    other = lk.Regex("b{2}", VOCABULARY)
    other.init_state(context())
    lk.save_state(path, some_state(TWO), TWO)
    message = (
        f"none of its rows belongs to this Regex, whose automaton is '{other.automaton.content_key}'.*load it with"
    )
    refuse(path, other, message)
    refuse(path, other, TWO.automaton.content_key)
    neutral = TWO.neutral_state(context(1))
    lk.save_state(path, neutral, TWO)
    assert lk.load_state(path, other).at.slot.tolist() == [0]


def test_a_state_that_outlived_its_automaton_cannot_be_saved(path: Path) -> None:
    short = lk.Regex("b{7}", VOCABULARY)
    state = some_state(short)
    del short
    gc.collect()
    with pytest.raises(StaleAutomaton):
        lk.save_state(path, state, TWO)
    assert not path.exists()


def test_a_state_of_another_processor_cannot_be_saved(path: Path) -> None:
    with pytest.raises(
        StateFileError, match=r"not one of Regex: state is RepetitionState\(history, occurred, penalty\)"
    ):
        lk.save_state(path, some_state(PENALTY), TWO)
    state = some_state(PENALTY)
    with pytest.raises(StateFileError, match=r"state.penalty is float32 of 1 dim.*but should be float64 of 1 dim.*"):
        lk.save_state(path, state._replace(penalty=state.penalty.float()), PENALTY)
    with pytest.raises(StateFileError, match=r"different numbers of rows: \[1, 2\]"):
        lk.save_state(path, state._replace(penalty=state.penalty[:1]), PENALTY)
    with pytest.raises(ConfigurationError, match="give the processor"):
        lk.save_state(path, state, lk.RepetitionPenalty)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("repetition", lk.RepetitionPenalty(1.5), lk.RepetitionPenalty(2.0, window=2)),
        ("frequency", lk.FrequencyPenalty(0.5), lk.FrequencyPenalty(0.25, window=3, include_prompt=True)),
        ("presence", lk.PresencePenalty(0.5, include_prompt=True), lk.PresencePenalty(1.5, window=1)),
    ],
)
def test_a_state_of_version_0_2_is_what_it_was(name: str, one: Any, other: Any) -> None:
    """Version 0.2 kept all tokens. Two rows of each configuration had the prompts and outputs below."""
    prompts, outputs = [[5, 2, 5], [7]], torch.tensor([[9, 5, 9, -1], [1, -1, 2, 1]])
    contexts = [lk.Context.of(prompts, vocabulary_size=600)] * 2
    states = [p.advance(p.init_state(c), outputs) for p, c in zip((one, other), contexts, strict=True)]
    wanted, loaded = lk.concatenate(states), lk.load_state(SAVED_BY_0_2 / f"{name}.safetensors", one)
    for tokens in (None, torch.tensor([8, 2, 9, 7]), torch.tensor([[1, 1], [3, -1], [2, 5], [1, 2]])):
        if tokens is not None:
            wanted, loaded = one.advance(wanted, tokens), one.advance(loaded, tokens)
        results = [
            one.process_logits(state, torch.ones(4, 600), lk.concatenate_context(contexts))[1]
            for state in (wanted, loaded)
        ]
        assert torch.equal(*results)
        assert not torch.equal(results[0], torch.ones(4, 600))


def test_a_chain_of_version_0_2_is_what_it_was() -> None:
    chain = lk.chain(PENALTY, lk.Regex("[abc]{9}", VOCABULARY))
    state, context = chain.init_state(lk.Context.of([[2]], 4)), lk.Context.of([[2]], 4)
    state, loaded = (
        chain.advance(state, torch.tensor([[0, 1]])),
        lk.load_state(SAVED_BY_0_2 / "chain.safetensors", chain),
    )
    results = [chain.process_logits(s, torch.ones(1, 4), context)[1] for s in (state, loaded)]
    assert torch.equal(*results)


def test_a_thinking_budget_of_version_0_2_is_what_it_was() -> None:
    """Rows with a part of their end marker, without any, and ended; then also those of another budget."""
    one, two = lk.ThinkingBudget(3, "-0\n", vocabulary()), lk.ThinkingBudget(1, "<s>", vocabulary(), "1")
    prompts = lk.Context.of([ids(b"1"), [], ids(b"1", b"a")], vocabulary_size=72)
    outputs = torch.tensor([[*ids(b"a", b"b", b"-0"), -1], [*ids(b"a", b"b", b"c"), EOS], [*ids(b"a"), -1, -1, -1]])
    sections = torch.tensor([[*ids(b"a", b"a")], [*ids(b"a", b"1,")], [BOS, -1]])
    first = one.advance(one.init_state(prompts), outputs)
    both = lk.concatenate([first, two.advance(two.init_state(prompts), sections)])
    for name, wanted, forced in (
        ("thinking", first, [True, False, False]),
        ("thinking-sections", both, [True, False, False, True, False, False]),
    ):
        states, rows = [wanted, lk.load_state(SAVED_BY_0_2 / f"{name}.safetensors", one)], len(forced)
        context = lk.Context.of([[]] * rows, vocabulary_size=72)
        assert one.is_forced(states[1]).tolist() == forced
        assert one.is_dead(states[1]).tolist()[:3] == [False, True, False]
        for token in (None, *ids(b"\n", b"a", b"1", b"b")):
            if token is not None:
                states = [one.advance(state, torch.full((rows,), token)) for state in states]
            assert all(map(torch.equal, *map(leaves, states)))
            logits = [one.process_logits(state, torch.ones(rows, 72), context)[1] for state in states]
            assert torch.equal(*logits)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"state.spent": torch.tensor([1, -1, 1])}, "state is corrupt: spent is not an integer from 0"),
        ({"state.inside": torch.tensor([3, 3, 99])}, "states of a section"),
        ({"state.spent": torch.zeros(3)}, "the tensors of its state have other dtypes"),
        ({"state.more": torch.zeros(3)}, "which no version of it had"),
    ],
)
def test_a_corrupt_budget_of_version_0_2_is_refused(path: Path, tensors: dict[str, Tensor], message: str) -> None:
    path.write_bytes((SAVED_BY_0_2 / "thinking.safetensors").read_bytes())
    rewrite(path, tensors=tensors)
    refuse(path, lk.ThinkingBudget(3, "-0\n", vocabulary()), message)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"state.history.length": torch.tensor([3, 99, 2, 2])}, "its history is corrupt: a row has more or fewer"),
        ({"state.history.length": torch.zeros(4)}, "the tensors of its history have other dtypes"),
        ({"state.history.more": torch.zeros(4)}, "which no version of it had"),
        ({"state.history.window": torch.ones(3, dtype=torch.int64)}, "different numbers of rows"),
    ],
)
def test_a_corrupt_state_of_version_0_2_is_refused(path: Path, tensors: dict[str, Tensor], message: str) -> None:
    path.write_bytes((SAVED_BY_0_2 / "repetition.safetensors").read_bytes())
    rewrite(path, tensors=tensors)
    refuse(path, lk.RepetitionPenalty(1.5), message)
