"""One step of a processor on one row, for expectations written out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

import torch

import logitkit as lk

NEVER = -torch.inf

# Ids:                      0     1     2      3 = EOS
AB = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
LOGITS = [0.5, -1.0, 2.0, 3.0]


def after(
    processor: lk.Processor[Any], tokens: Sequence[int], logits: Sequence[float], prompt: Sequence[int] = ()
) -> list[float]:
    """Return what the processor makes of the logits when a row has a prompt and some tokens of output."""
    context = lk.Context.of([prompt], vocabulary_size=len(logits))
    state = processor.init_state(context)
    if tokens:
        state = processor.advance(state, torch.tensor([list(tokens)]))
    _, processed = processor.process_logits(state, torch.tensor([list(logits)]), context)
    values: list[float] = processed[0].tolist()
    return values


def on_either_path(
    processor: lk.Processor[Any], tokens: Sequence[int], logits: Sequence[float], prompt: Sequence[int] = ()
) -> list[float]:
    """Return what becomes of the logits row by row, which tensors alone must make of them too."""
    by_rows = after(processor, tokens, logits, prompt)
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        assert after(processor, tokens, logits, prompt) == by_rows
    return by_rows


def begun(processor: Any, tokens: Sequence[int], prompt: Sequence[int] = ()) -> Any:
    """Return the state of a row with a prompt and some tokens of output."""
    context = lk.Context.of([prompt], processor.vocabulary.size)
    return processor.advance(processor.init_state(context), torch.tensor([[*tokens, -1]]))
