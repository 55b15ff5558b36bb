"""Processors whose states tests save, and files that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import logitkit as lk
from logitkit.errors import StateFileError
from logitkit.saving.state_format import decode, digest

VOCABULARY = lk.Vocabulary([b"a", b"b", b"c", None], eos_ids=[3])


TWO = lk.Regex("a{2}", VOCABULARY)


PENALTY = lk.RepetitionPenalty(1.5)


BOTH = lk.chain(PENALTY, TWO)


def context(rows: int = 2) -> lk.Context:
    return lk.Context.of([[2]] * rows, vocabulary_size=4)


def some_state(processor: lk.Processor[Any], rows: int = 2) -> Any:
    return processor.advance(processor.init_state(context(rows)), torch.zeros(rows, dtype=torch.int64))


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
