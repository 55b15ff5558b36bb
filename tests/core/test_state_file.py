"""Saved states: whole or refused, and bound to the automata of the process that loads them."""

from __future__ import annotations

import gc
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError, StaleAutomaton, StateFileError
from logitkit.runtime import AutomatonState
from logitkit.saving.state_format import decode, digest, encode
from tests.core.misbehaving import Counter

VOCABULARY = lk.Vocabulary([b"a", b"b", b"c", None], eos_ids=[3])
TWO = lk.Regex("a{2}", VOCABULARY)
PENALTY = lk.RepetitionPenalty(1.5)
BOTH = lk.chain(PENALTY, TWO)


def context(rows: int = 2) -> lk.Context:
    return lk.Context.of([[2]] * rows, vocabulary_size=4)


def some_state(processor: lk.Processor[Any], rows: int = 2) -> Any:
    return processor.advance(processor.init_state(context(rows)), torch.zeros(rows, dtype=torch.int64))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.safetensors"


@pytest.fixture
def saved(path: Path) -> Path:
    lk.save_state(path, some_state(BOTH), BOTH)
    return path


def refuse(path: Path, processor: lk.Processor[Any], message: str) -> None:
    with pytest.raises(StateFileError, match=message) as caught:
        lk.load_state(path, processor)
    assert str(caught.value).startswith(f"cannot load a state from {path}: ")


def rewrite(path: Path, **changes: Any) -> None:
    """Change what a file says or holds, with a digest that is right again."""
    contents = decode(path.read_bytes())
    tensors = contents.tensors | changes.pop("tensors", {})
    said = {name: getattr(contents, name) for name in ("kind", "structure", "rows", "notes")} | changes
    description = json.dumps(said)
    metadata = {
        "format": "logitkit.state",
        "version": "1",
        "description": description,
        "digest": digest(description, tensors),
    }
    safetensors.torch.save_file(tensors, path, metadata)


def test_a_state_is_what_it_was(saved: Path) -> None:
    state, loaded = some_state(BOTH), lk.load_state(str(saved), BOTH)
    assert isinstance(loaded[1], AutomatonState)
    assert type(loaded[0]) is type(state[0])
    assert loaded[0].history.tokens.equal(state[0].history.tokens)
    assert loaded[1].state.equal(state[1].state)
    logits = BOTH.process_logits(loaded, torch.ones(2, 4), context())[1]
    assert logits.equal(BOTH.process_logits(state, torch.ones(2, 4), context())[1])


def test_other_tools_can_read_the_file(saved: Path) -> None:
    tensors = safetensors.torch.load_file(saved)
    assert sorted(tensors) == [
        *("state.0.history.grows", "state.0.history.length", "state.0.history.tokens", "state.0.history.window"),
        "state.0.penalty",
        *("state.1.generation", "state.1.slot", "state.1.state"),
    ]
    assert tensors["state.0.history.length"].tolist() == [2, 2]


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
    assert lk.load_state(path, BOTH)[1].state.equal(state[1].state)


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
    neutral = AutomatonState(*(torch.tensor([n]) for n in (0, 0, 2)))
    state = lk.concatenate([state, neutral])
    lk.save_state(path, state, first)
    before = state.slot.tolist()
    # In a bank of its own, where the places are others.
    del first, second, vocabulary
    vocabulary = lk.Vocabulary([b"a", b"b", b"c", None, None], eos_ids=[3])
    processors = [lk.Regex(pattern, vocabulary) for pattern in ("c", "[ab]{5}", "b", "a{4}")]
    for processor in processors:
        processor.init_state(context())
    loaded = lk.load_state(path, processors[3])
    assert loaded.slot.tolist() == [4, 4, 2, 0] != before
    assert loaded.state.equal(state.state)
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
    neutral = AutomatonState(*(torch.tensor([n]) for n in (0, 0, 2)))
    lk.save_state(path, neutral, TWO)
    assert lk.load_state(path, other).slot.tolist() == [0]


def test_a_state_that_outlived_its_automaton_cannot_be_saved(path: Path) -> None:
    short = lk.Regex("b{7}", VOCABULARY)
    state = some_state(short)
    del short
    gc.collect()
    with pytest.raises(StaleAutomaton):
        lk.save_state(path, state, TWO)
    assert not path.exists()


def test_a_state_of_another_processor_cannot_be_saved(path: Path) -> None:
    with pytest.raises(StateFileError, match=r"not one of Regex: state is RepetitionState\(history, penalty\)"):
        lk.save_state(path, some_state(PENALTY), TWO)
    state = some_state(PENALTY)
    with pytest.raises(StateFileError, match=r"state.penalty is float32 of 1 dim.*but should be float64 of 1 dim.*"):
        lk.save_state(path, state._replace(penalty=state.penalty.float()), PENALTY)
    with pytest.raises(StateFileError, match=r"different numbers of rows: \[1, 2\]"):
        lk.save_state(path, state._replace(penalty=state.penalty[:1]), PENALTY)
    with pytest.raises(ConfigurationError, match="give the processor"):
        lk.save_state(path, state, lk.RepetitionPenalty)  # type: ignore[arg-type]


def test_a_missing_file_is_an_ordinary_error(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        lk.load_state(path, BOTH)


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (TWO, r"it holds a state of chain\(RepetitionPenalty, Regex\), not of Regex"),
        (lk.chain(TWO, PENALTY), r"not of chain\(Regex, RepetitionPenalty\)"),
        (lk.chain(PENALTY), r"not of chain\(RepetitionPenalty\)"),
        (lk.chain(PENALTY, lk.Choice(["aa"], VOCABULARY)), r"not of chain\(RepetitionPenalty, Choice\)"),
    ],
)
def test_another_kind_of_processor_is_refused(saved: Path, processor: Any, message: str) -> None:
    refuse(saved, processor, message)


def test_a_truncated_file_is_refused_wherever_it_ends(saved: Path) -> None:
    data = saved.read_bytes()
    for size in {*range(0, len(data), 13), *range(20), len(data) - 1}:
        saved.write_bytes(data[:size])
        refuse(saved, BOTH, "truncated|corrupt")


@given(st.data())
def test_a_corrupt_file_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("corrupt") / "state"
    lk.save_state(path, some_state(BOTH), BOTH)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    refuse(path, BOTH, ".")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a safetensors file, or truncated"),
        (b"\0" * 100, "not a safetensors file, or corrupt"),
        (b"PK\3\4 this is a zip or a pickle, more or less", "not a safetensors file, or truncated"),
        ((2).to_bytes(8, "little") + b"[]", "not a file that save_state wrote"),
        ((2).to_bytes(8, "little") + b"{}", "not a file that save_state wrote"),
        ((100_000).to_bytes(8, "little") + b"[" * 100_000, "not a safetensors file, or corrupt"),
        (safetensors.torch.save({"weight": torch.ones(2)}), "not a file that save_state wrote"),
        (
            safetensors.torch.save({"weight": torch.ones(2)}, {"format": "pt"}),
            "not one that save_state wrote",
        ),
    ],
)
def test_a_foreign_file_is_refused(path: Path, content: bytes, message: str) -> None:
    path.write_bytes(content)
    refuse(path, BOTH, message)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("2", "format version is 2 .* reads up to 1: update logitkit"),
        ("9" * 5000, "update"),
        ("-1", "no logitkit wrote"),
    ],
)
def test_another_version_is_refused(saved: Path, version: str, message: str) -> None:
    tensors = safetensors.torch.load_file(saved)
    safetensors.torch.save_file(tensors, saved, {"format": "logitkit.state", "version": version})
    refuse(saved, BOTH, message)


def test_the_digest_covers_what_is_said_and_what_is_held(saved: Path) -> None:
    contents = decode(saved.read_bytes())
    length = contents.tensors["state.0.history.length"]
    other = encode(contents).replace(contents.notes["state.1"][0][:4].encode(), b"0000")
    saved.write_bytes(other)
    refuse(saved, BOTH, "digest")
    data = bytearray(encode(contents))
    place = data.rindex(length.numpy().tobytes())
    data[place] ^= 1
    saved.write_bytes(data)
    refuse(saved, BOTH, "digest")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 3}, "its tensors have 2 rows, but it says that there are 3"),
        ({"rows": None}, "says that there are None"),
        ({"rows": "2"}, "has '2' as rows"),
        ({"notes": {}}, "notes on state.1 are missing"),
        ({"notes": {"state.1": 7}}, "automaton 7 does not belong"),
        ({"notes": {"state.1": []}}, "row 0 has automaton 1 of 0"),
        ({"notes": {"state.1": [None]}}, "automaton None does not belong"),
        ({"more": 1}, "description must have kind, structure, rows, notes"),
        ({"structure": []}, r"has \[\] as structure"),
        ({"structure": {}}, r"state is missing, but should be tuple\(0, 1\)"),
    ],
)
def test_a_description_made_by_hand_is_checked(saved: Path, changes: dict[str, Any], message: str) -> None:
    rewrite(saved, **changes)
    refuse(saved, BOTH, message)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("1.slot", torch.tensor([1, 2]), "row 1 has automaton 2 of 1"),
        ("1.slot", torch.tensor([-1, 1]), "row 0 has automaton -1 of 1"),
        ("1.slot", torch.tensor([1, 0]), "row 1 is in state 3 of an automaton with 3 states"),
        ("1.state", torch.tensor([2, 5]), "row 1 is in state 5 of an automaton with 5 states"),
        ("1.state", torch.tensor([-1, 2]), "row 0 is in state -1"),
        ("1.state", torch.tensor([2]), r"different numbers of rows: \[1, 2\]"),
        ("1.state", torch.tensor([2.0, 2.0]), "state.1.state is float32 of 1 dim.*but should be int64 of 1 dim"),
        ("1.state", torch.tensor([[2], [2]]), "state.1.state is int64 of 2 dim"),
        ("1.more", torch.tensor([2, 2]), "state.1.more is int64 of 1 dimensions, but should be absent"),
        ("0.penalty", torch.tensor([1.0, -1.0]).double(), "state.0 is corrupt: penalty is not"),
        ("0.penalty", torch.tensor([1.0, torch.nan]).double(), "penalty is not a number from 0.0001 to 10000"),
        ("0.history.length", torch.tensor([2, 600]), "state.0.history is corrupt: a row has more or fewer tokens"),
        ("0.history.length", torch.tensor([2, -1]), "a length is below 0"),
        ("0.history.window", torch.tensor([0, 2]), "a window below 1"),
        ("0.history.window", torch.tensor([1, 2]), "a row has more or fewer tokens than its length and window say"),
        ("0.history.tokens", torch.full((2, 8), -2, dtype=torch.int32), "a token id is below -1"),
        (
            "0.history.tokens",
            torch.full((2, 1), 1, dtype=torch.int32),
            "a row has more or fewer tokens than its length and window say",
        ),
    ],
)
def test_values_that_could_do_harm_are_refused(saved: Path, name: str, value: Tensor, message: str) -> None:
    rewrite(saved, tensors={f"state.{name}": value})
    refuse(saved, BOTH, message)


@dataclass(frozen=True)
class Weighted(Counter):
    """Has a tensor that would fill screens."""

    weights: Tensor = field(default_factory=lambda: torch.arange(5000.0))


def test_arguments_in_another_order_are_named_in_one_line(path: Path) -> None:
    processor = Weighted()
    state = some_state(processor)
    for call, message in (
        (
            lambda: lk.save_state(path, processor, state),
            r"state is the processor Weighted, and processor is a Count; the order",
        ),
        (lambda: lk.save_state(path, state, torch.arange(5000)), r"processor is a Tensor; give the processor"),  # type: ignore[arg-type]
        (lambda: lk.load_state(path, state), r"processor is a Count; give the processor"),
    ):
        with pytest.raises(ConfigurationError, match=message) as raised:
            call()
        assert len(str(raised.value)) < 160
    assert not path.exists()
    lk.save_state(path, state, processor)
    assert lk.load_state(path, processor).tokens.tolist() == [1, 1]
