"""Operations on sequence states: join two states row by row, append text, repeat samples.

One batch of the rows of several states.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from logitkit.errors import BatchMismatch, ConfigurationError, SampleMismatch
from logitkit.parameters.scalars import checked_integer
from logitkit.protocol.described import same_processor
from logitkit.protocol.state import concatenate
from logitkit.protocol.state import to as moved
from logitkit.sessions.cache_port import SavedCache
from logitkit.sessions.sequence_parts import CacheDropped, RowPiece, Weights, carried, put_together, weights_of
from logitkit.sessions.sequence_rows import SequenceRows
from logitkit.sessions.text_continuation import continuation, joined_tokens, whole_characters
from logitkit.sessions.text_tokenizer import TextTokenizer, check_same_tokenizer

__all__ = ["appended", "batched", "joined", "repeated"]

S = TypeVar("S", bound=SequenceRows)

# The fields with one value per row, or one row of values per prompt.
PER_ROW = ("weights", "open_weights", "prompt_lengths", "seams", "finished", "lost_bos")


def batched(states: Sequence[S]) -> S:
    """Return one state of the prompts of several, in order.

    Raises:
        ConfigurationError: There are no states, something else is given, or they have different tokenizers.
        SampleMismatch: They have different numbers of samples.
    """
    given = [*states]
    other = next((one for one in given if not isinstance(one, SequenceRows)), None)
    if not given or other is not None:
        raise ConfigurationError(
            f"states contains {'nothing' if not given else f'a {type(other).__qualname__}'}; give at least one SequenceState"
        )
    first = given[0]
    wrong = next((one for one in given if one.num_samples != first.num_samples), None)
    if wrong is not None:
        raise SampleMismatch(
            f"states of {first.num_samples} and of {wrong.num_samples} samples cannot share a batch: select samples of one, or "
            "repeat the other by fan_out"
        )
    for one in given[1:]:
        check_same_tokenizer(one.rows, one.tokenizer, first.tokenizer)
    width = max(one.token_ids.shape[1] for one in given)
    paddings = [width - one.token_ids.shape[1] for one in given]
    device, pad_id = first.token_ids.device, TextTokenizer(first.tokenizer).pad_id

    def columns(name: str, value: float) -> Tensor:
        parts = (
            torch.nn.functional.pad(getattr(s, name), (n, 0), value=value) for s, n in zip(given, paddings, strict=True)
        )
        return torch.cat([part.to(device) for part in parts])

    per_row: dict[str, Any] = {name: torch.cat([getattr(one, name).to(device) for one in given]) for name in PER_ROW}
    # A cached column is valid for all rows or none.
    cached = min(one.cached + padding for one, padding in zip(given, paddings, strict=True))
    cache = _cache(given, paddings, cached)
    is_same = all(same_processor(one.processor, first.processor) for one in given)
    has_states = is_same and all(one.processor_state is not None for one in given)
    return replace(
        first,
        token_ids=columns("token_ids", pad_id),
        attention_masks=columns("attention_masks", 0),
        token_log_probs=columns("token_log_probs", torch.nan),
        **per_row,
        kv_cache=cache,
        cached=0 if cache is None else cached,
        processor=first.processor if is_same else None,
        processor_state=concatenate([moved(one.processor_state, device) for one in given]) if has_states else None,
    )


def _cache(states: Sequence[SequenceRows], paddings: Sequence[int], cached: int) -> object:
    port = states[0].port
    if port is not None and all(
        one.kv_cache is not None and not isinstance(one.kv_cache, SavedCache) for one in states
    ):
        found: object = port.batched(states, paddings, cached)
        if found is not None:
            return found
    if any(one.kv_cache is not None for one in states):
        warnings.warn(
            "some states of the batch have no cache, one that is not loaded yet, one of another model, or one that cannot be "
            "cut; all caches are dropped, and continuing feeds the batch to the model again",
            CacheDropped,
            stacklevel=4,
        )
    return None


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
