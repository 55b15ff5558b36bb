"""Files of states that are broken, changed or of another processor are refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.penalties.token_counts import EMPTY
from logitkit.saving.state_format import decode, encode
from tests.core.misbehaving import Counter
from tests.core.state_files import BOTH, PENALTY, TWO, VOCABULARY, refuse, rewrite, some_state


def ids_of(rows: list[list[int]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.int32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.safetensors"


@pytest.fixture
def saved(path: Path) -> Path:
    lk.save_state(path, some_state(BOTH), BOTH)
    return path


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
    length = contents.tensors["state.0.occurred.number"]
    other = encode(contents).replace(contents.notes["state.1.at"][0][:4].encode(), b"0000")
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
        ({"notes": {}}, "notes on state.1.at are missing"),
        ({"notes": {"state.1.at": 7}}, "automaton 7 does not belong"),
        ({"notes": {"state.1.at": []}}, "row 0 has automaton 1 of 0"),
        ({"notes": {"state.1.at": [None]}}, "automaton None does not belong"),
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
        ("1.at.slot", torch.tensor([1, 2]), "row 1 has automaton 2 of 1"),
        ("1.at.slot", torch.tensor([-1, 1]), "row 0 has automaton -1 of 1"),
        ("1.at.slot", torch.tensor([1, 0]), "row 1 is in state 3 of an automaton with 3 states"),
        ("1.at.state", torch.tensor([2, 5]), "row 1 is in state 5 of an automaton with 5 states"),
        ("1.at.state", torch.tensor([-1, 2]), "row 0 is in state -1"),
        ("1.at.state", torch.tensor([2]), r"different numbers of rows: \[1, 2\]"),
        ("1.at.state", torch.tensor([2.0, 2.0]), "state.1.at.state is float32 of 1 dim.*but should be int64 of 1 dim"),
        ("1.at.state", torch.tensor([[2], [2]]), "state.1.at.state is int64 of 2 dim"),
        ("1.at.more", torch.tensor([2, 2]), "state.1.at.more is int64 of 1 dimensions, but should be absent"),
        ("0.penalty", torch.tensor([1.0, -1.0]).double(), "state.0 is corrupt: penalty is not"),
        ("0.penalty", torch.tensor([1.0, torch.nan]).double(), "penalty is not a number from 0.0001 to 10000"),
        (
            "0.occurred.number",
            torch.tensor([2, 600]),
            "state.0.occurred is corrupt: a row has fewer than 0 ids, or more",
        ),
        ("0.occurred.number", torch.tensor([2, -1]), "a row has fewer than 0 ids"),
        ("0.occurred.number", torch.tensor([2, 1]), "a row has more or fewer ids than it says"),
        ("0.occurred.counted", torch.tensor([True, False]), "or more than it has room for"),
        ("0.occurred.ids", ids_of([[0, 2, -3], [0, 2, EMPTY]]), "a row has more or fewer ids than it says"),
        ("0.occurred.ids", ids_of([[2, 0, EMPTY], [0, 2, EMPTY]]), "the ids of a row do not ascend"),
        ("0.occurred.ids", ids_of([[2, 2, EMPTY], [0, 2, EMPTY]]), "the ids of a row do not ascend"),
        ("0.occurred.counts", ids_of([[1, 1], [1, 1]]), "a row has more or fewer counts than ids"),
    ],
)
def test_values_that_could_do_harm_are_refused(saved: Path, name: str, value: Tensor, message: str) -> None:
    rewrite(saved, tensors={f"state.{name}": value})
    refuse(saved, BOTH, message)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("length", torch.tensor([2, 600]), "state.history is corrupt: a row has more or fewer tokens"),
        ("length", torch.tensor([2, -1]), "a length is below 0"),
        ("window", torch.tensor([0, 2]), "a window below 1"),
        ("window", torch.tensor([1, 2]), "a row has more or fewer tokens than its length and window say"),
        ("tokens", torch.full((2, 8), -2, dtype=torch.int32), "a token id is below -1"),
        ("tokens", ids_of([[1], [1]]), "a row has more or fewer tokens than its length and window say"),
    ],
)
def test_histories_that_could_do_harm_are_refused(path: Path, name: str, value: Tensor, message: str) -> None:
    penalty = lk.RepetitionPenalty(1.5, window=8)
    lk.save_state(path, some_state(penalty), penalty)
    rewrite(path, tensors={f"state.history.{name}": value})
    refuse(path, penalty, message)


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
            r"state is the processor Weighted, and processor is of type Count; the order",
        ),
        (lambda: lk.save_state(path, state, torch.arange(5000)), r"processor is of type Tensor; give the processor"),  # type: ignore[arg-type]
        (lambda: lk.load_state(path, state), r"processor is of type Count; give the processor"),
    ):
        with pytest.raises(ConfigurationError, match=message) as raised:
            call()
        assert len(str(raised.value)) < 160
    assert not path.exists()
    lk.save_state(path, state, processor)
    assert lk.load_state(path, processor).tokens.tolist() == [1, 1]
