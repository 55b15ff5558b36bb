"""Operations on sequence states: join two states row by row, append text, repeat samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import torch

from logitkit.errors import BatchMismatch, SampleMismatch
from logitkit.parameters.integers import checked_integer
from logitkit.sessions.same_tokenizer import check_same_tokenizer
from logitkit.sessions.sequence_parts import RowPiece, Weights, carried, put_together, weights_of
from logitkit.sessions.sequence_rows import SequenceRows
from logitkit.sessions.text_continuation import continuation, joined_tokens, whole_characters
from logitkit.sessions.text_tokenizer import TextTokenizer

__all__ = ["appended", "joined", "repeated"]

S = TypeVar("S", bound=SequenceRows)

MOST_SAMPLES = 2**20


def joined(left: S, right: SequenceRows) -> S:
    """Return the rows of two states concatenated; weights are added, and the left cache is kept.

    The texts are concatenated as in Python. So a BOS at the start of a right row is dropped if it would end up inside the text,
    and so is a space that only the right row's tokenization adds, and an incomplete character at the end of the left row, unless
    the right row begins inside of one.

    Raises:
        BatchMismatch: The states have different numbers of prompts.
        SampleMismatch: The states have different numbers of samples.
        ConfigurationError: The states have different tokenizers.
    """
    if left.batch_size != right.batch_size:
        raise BatchMismatch(
            f"a state of {left.batch_size} prompts and one of {right.batch_size} cannot be joined; give states with "
            "the same number of prompts"
        )
    if left.num_samples != right.num_samples:
        raise SampleMismatch(
            f"a state of {left.num_samples} samples and one of {right.num_samples} cannot be joined: select samples of one, "
            "or repeat the other by fan_out"
        )
    check_same_tokenizer(right.rows, right.tokenizer, left.tokenizer)
    tokenizer = TextTokenizer(left.tokenizer)
    pieces = []
    for row, (first, second) in enumerate(zip(left.rows, right.rows, strict=True)):
        goes_on = not second or tokenizer.cut_off(second)
        kept, missing = (first, "") if goes_on else whole_characters(first, tokenizer)
        between = _appended(kept, missing, tokenizer)
        added = _second([*kept, *between], second, tokenizer)
        pieces.append(RowPiece(row, len(kept), [*between, *added], log_probs=carried(right, row, added)))
    sums = (one + other.to(one) for one, other in zip(weights_of(left), weights_of(right), strict=True))
    return put_together(left, pieces, Weights(*sums))


def appended(state: S, texts: str | Sequence[str]) -> S:
    """Return the state with a text appended to every row. The whole row then counts as prompt: its weights are 0.

    Args:
        state: The state.
        texts: One text for all rows, or one for each prompt.

    Raises:
        BatchMismatch: There are more texts than prompts, or fewer.
        ConfigurationError: The tokenizer has no tokens that add exactly this text.
    """
    of_prompts = [texts] * state.batch_size if isinstance(texts, str) else texts
    if len(of_prompts) != state.batch_size:
        raise BatchMismatch(
            f"{len(of_prompts)} texts are added to a state of {state.batch_size} prompts; give one text for each, or one text"
        )
    tokenizer = TextTokenizer(state.tokenizer)
    pieces = []
    for row, ids in enumerate(state.rows):
        text = of_prompts[row // state.num_samples]
        kept, missing = whole_characters(ids, tokenizer) if text else (ids, "")
        pieces.append(RowPiece(row, len(kept), _appended(kept, missing + text, tokenizer)))
    nothing_written = torch.zeros_like(state.weights)
    longer = put_together(state, pieces, Weights(nothing_written, nothing_written))
    lengths = longer.attention_masks.sum(1)
    nothing = torch.zeros_like(longer.finished)
    unknown = torch.full_like(longer.token_log_probs, torch.nan)
    return replace(
        longer, prompt_lengths=lengths, seams=lengths, finished=nothing, processor_state=None, token_log_probs=unknown
    )


def _appended(ids: Sequence[int], text: str, tokenizer: TextTokenizer) -> Sequence[int]:
    """Return the tokens that append a text to a row, which may be empty."""
    if not text:
        return []
    return continuation(ids, text, tokenizer) if ids else tokenizer.encode(text, with_special_tokens=True)


def _second(first: Sequence[int], second: Sequence[int], tokenizer: TextTokenizer) -> Sequence[int]:
    """Return the tokens of the right row as they continue the left one."""
    if not first or not second:
        return second
    return joined_tokens(first, second[1:] if second[0] == tokenizer.bos_id else second, tokenizer)


def repeated(state: S, samples: int) -> S:
    """Return the state with the single sample of each prompt repeated.

    Raises:
        SampleMismatch: The state already has several samples.
        ConfigurationError: `samples` is not a positive integer.
    """
    count = checked_integer("samples", samples, 1, MOST_SAMPLES)
    if state.num_samples != 1:
        raise SampleMismatch(
            f"fan_out({count}) repeats a single sample, but the state has {state.num_samples}; select one of them first"
        )
    pieces = [RowPiece(row, len(ids)) for row, ids in enumerate(state.rows) for _ in range(count)]
    return put_together(state, pieces, Weights(*(w.repeat(1, count) for w in weights_of(state))))
