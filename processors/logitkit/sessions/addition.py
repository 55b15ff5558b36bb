"""Sequence states joined row by row, prolonged by a text, and repeated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from logitkit.errors import BatchMismatch, SampleMismatch
from logitkit.integers import checked_integer
from logitkit.sessions.sequence_parts import Piece, Weights, put_together, weights_of
from logitkit.sessions.text_tokenizer import TextTokenizer

if TYPE_CHECKING:
    from logitkit.sessions.sequence_state import SequenceState

__all__ = ["appended", "joined", "repeated"]

MOST_SAMPLES = 2**20


def joined(left: SequenceState, right: SequenceState) -> SequenceState:
    """Return the rows of two states one after another; weights add, and the left cache stays.

    A BOS with which a right row begins is left out where it would stand inside a text.

    Raises:
        BatchMismatch: They have different numbers of prompts.
        SampleMismatch: They have different numbers of samples.
    """
    if left.batch_size != right.batch_size:
        raise BatchMismatch(
            f"a state of {left.batch_size} prompts and one of {right.batch_size} cannot be joined: rows go with rows"
        )
    if left.num_samples != right.num_samples:
        raise SampleMismatch(
            f"a state of {left.num_samples} samples and one of {right.num_samples} cannot be joined: select samples of one, "
            "or repeat the other by fan_out"
        )
    bos = TextTokenizer(left.tokenizer).bos_id
    pieces = [
        Piece(row, len(first), second[1:] if first and second and second[0] == bos else second)
        for row, (first, second) in enumerate(zip(left.rows, right.rows, strict=True))
    ]
    sums = (one + other.to(one) for one, other in zip(weights_of(left), weights_of(right), strict=True))
    return put_together(left, pieces, Weights(*sums))


def appended(state: SequenceState, text: str) -> SequenceState:
    """Return the state with a text after every row, all of which is a prompt then: its weights are 0."""
    tokenizer = TextTokenizer(state.tokenizer)
    begins, goes_on = (tokenizer.encode(text, with_special_tokens=first) for first in (True, False))
    pieces = [Piece(row, len(ids), goes_on if ids else begins) for row, ids in enumerate(state.rows)]
    nothing_written = torch.zeros_like(state.weights)
    longer = put_together(state, pieces, Weights(nothing_written, nothing_written))
    lengths = longer.attention_masks.sum(1)
    nothing = torch.zeros_like(longer.finished)
    return replace(longer, prompt_lengths=lengths, seams=lengths, finished=nothing, processor_state=None)


def repeated(state: SequenceState, samples: int) -> SequenceState:
    """Return the state with its one sample of each prompt repeated.

    Raises:
        SampleMismatch: There are several samples already.
        ConfigurationError: `samples` is not an integer from 1.
    """
    count = checked_integer("samples", samples, 1, MOST_SAMPLES)
    if state.num_samples != 1:
        raise SampleMismatch(
            f"fan_out({count}) was asked of a state of {state.num_samples} samples; it repeats one sample: select it first"
        )
    pieces = [Piece(row, len(ids)) for row, ids in enumerate(state.rows) for _ in range(count)]
    return put_together(state, pieces, Weights(*(w.repeat(1, count) for w in weights_of(state))))
