"""llama.cpp's own samplers, on tokens and logits of the tests."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import llama_cpp_vocabulary

llama = pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install 'logitkit[llama-cpp]'")

# Called from C for as long as the process lives.
SILENT = llama.llama_log_callback(lambda level, text, data: None)


@cache
def vocabulary() -> Any:
    """Load the tests' vocabulary into llama.cpp."""
    llama.llama_log_set(SILENT, ctypes.c_void_p(0))
    llama.llama_backend_init()
    parameters = llama.llama_model_default_params()
    parameters.vocab_only = True
    with TemporaryDirectory() as folder:
        path = Path(folder) / "vocabulary.gguf"
        llama_cpp_vocabulary.write(path)
        model = llama.llama_model_load_from_file(str(path).encode(), parameters)
    assert model, "llama.cpp does not read the vocabulary"
    return llama.llama_model_get_vocab(model)


def encode(text: str) -> list[int]:
    """Return the tokens of a text, by llama.cpp."""
    content = text.encode()
    room = (llama.llama_token * (len(content) + 1))()
    count = llama.llama_tokenize(vocabulary(), content, len(content), room, len(room), False, False)
    return list(room[:count])


def penalties(columns: int, last_n: int, frequency: float, presence: float) -> Any:
    """Make the sampler of frequency and presence penalties."""
    return llama.llama_sampler_init_penalties(columns, last_n, 1.0, frequency, presence)


def dry(multiplier: float, base: float, allowed_length: int, last_n: int, breakers: Sequence[str]) -> Any:
    """Make the DRY sampler."""
    texts = (ctypes.c_char_p * len(breakers))(*(text.encode() for text in breakers))
    return llama.llama_sampler_init_dry(vocabulary(), multiplier, base, allowed_length, last_n, texts, len(breakers))


def candidates(logits: Tensor) -> Any:
    """Return logits, [V] float32, as a sampler takes them: as candidates, which it changes in place."""
    room = (llama.llama_token_data * len(logits))(*((i, x, 0.0) for i, x in enumerate(logits.tolist())))
    return llama.llama_token_data_array(data=room, size=len(logits), selected=-1, sorted=False)


def accept(sampler: Any, tokens: Sequence[int]) -> None:
    """Tell a sampler what was said."""
    for token in tokens:
        llama.llama_sampler_accept(sampler, token)


def apply(sampler: Any, found: Any) -> None:
    """Have a sampler change candidates."""
    llama.llama_sampler_apply(sampler, ctypes.byref(found))


def logits_of(found: Any) -> Tensor:
    """Return the logits of candidates."""
    return torch.tensor([found.data[i].logit for i in range(found.size)])


def after(sampler: Any, tokens: Sequence[int], logits: Tensor) -> Tensor:
    """Return the logits, [V] float32, that a sampler makes when it has accepted some tokens; the sampler is freed."""
    found = candidates(logits)
    accept(sampler, tokens)
    apply(sampler, found)
    llama.llama_sampler_free(sampler)
    assert found.size == len(logits)
    return logits_of(found)
