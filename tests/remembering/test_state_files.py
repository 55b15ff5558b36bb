"""Saved states of rows that remember items: they come back as they were, and impossible ones are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import torch

import logitkit as lk
from logitkit.errors import StateFileError
from logitkit.runtime.remembering.remembering_state import RememberingState
from tests.remembering.test_masks import array, vocabulary

WORDS = array({"type": "string", "maxLength": 3000})
# An object may have one like it inside, so its array begins inside of open brackets.
SCHEMA = {
    "$ref": "#/$defs/tree",
    "$defs": {
        "tree": {"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}, "b": array(WORDS)}, "required": ["b"]}
    },
}
# `["a","b` is the item at its end.
TEXT = '{"a":{"b":[["a","b'


def begun(text: str) -> tuple[lk.JsonSchema, RememberingState]:
    """Return a processor, and a state after a text, byte by byte."""
    processor = lk.JsonSchema(SCHEMA, vocabulary())
    state = processor.init_state(lk.Context.of([[]], vocabulary_size=vocabulary().size))
    for byte in text.encode():
        state = processor.advance(state, torch.tensor([byte]))
    assert isinstance(state, RememberingState)
    return processor, state


def loaded(path: Path, state: RememberingState, processor: lk.JsonSchema) -> Any:
    lk.save_state(path / "state", state, processor)
    return lk.load_state(path / "state", processor)


def test_a_loaded_row_knows_the_items_that_are_used_up(tmp_path: Path) -> None:
    processor, state = begun('{"a":{"b":[["a","bb"],["a","b')
    before = processor.allowed_tokens(cast("Any", state))
    again = loaded(tmp_path, state, processor)
    assert torch.equal(processor.allowed_tokens(again), before)
    for byte in b'b"':
        again = processor.advance(again, torch.tensor([byte]))
    # `["a","bb"]` would come again; a third word may follow.
    assert processor.allowed_tokens(again)[0, list(b",]")].tolist() == [True, False]


ELSEWHERE = "does not begin with an array that it remembers"


@pytest.mark.parametrize(
    ("began", "message"),
    [
        ([9999, 2], ELSEWHERE),
        ([-5, 2], ELSEWHERE),
        # The first state, and not that after the bracket.
        ([2, 2], ELSEWHERE),
        ([None, -1], ELSEWHERE),
        ([None, 99], ELSEWHERE),
        ([None, 0], "does not lead to its state"),
        ([None, 2, 0], r"began is not \[B, 2\]"),
    ],
    ids=str,
)
def test_impossible_beginnings_are_refused(tmp_path: Path, began: list[int | None], message: str) -> None:
    """None stands for the right state; the right depth is 2."""
    processor, state = begun(TEXT)
    right, depth = state.began[0].tolist()
    assert depth == 2
    changed = torch.tensor([[right if number is None else number for number in began]])
    with pytest.raises(StateFileError, match=message):
        loaded(tmp_path, state._replace(began=changed), processor)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{["a","b', ELSEWHERE),
        (b"", ELSEWHERE),
        (b'[["a"]', "does not lead to its state"),
        (b'[["a","b"', "does not lead to its state"),
        (b'[["a",1', "does not allow"),
        # The second item is the first one again.
        (b'[["a","a","b', "does not allow"),
    ],
    ids=str,
)
def test_impossible_texts_are_refused(tmp_path: Path, text: bytes, message: str) -> None:
    processor, state = begun(TEXT)
    changed = torch.tensor([[*text]], dtype=torch.int16)
    with pytest.raises(StateFileError, match=message):
        loaded(tmp_path, state._replace(text=changed), processor)


@pytest.mark.parametrize("values", [[91, -1, 91], [91, 256], [91, -2]], ids=str)
def test_texts_that_are_not_bytes_are_refused(tmp_path: Path, values: list[int]) -> None:
    processor, state = begun('{"a":{"b":[')
    with pytest.raises(StateFileError, match="text is not bytes, and then -1"):
        loaded(tmp_path, state._replace(text=torch.tensor([values], dtype=torch.int16)), processor)
