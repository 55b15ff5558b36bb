"""One batch of the rows of several states."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError, SampleMismatch
from logitkit.protocol.same_processor import same_processor
from logitkit.protocol.state import concatenate
from logitkit.protocol.state import to as moved
from logitkit.sessions.cache_port import SavedCache
from logitkit.sessions.same_tokenizer import check_same_tokenizer
from logitkit.sessions.sequence_parts import CacheDropped
from logitkit.sessions.sequence_rows import SequenceRows
from logitkit.sessions.text_tokenizer import TextTokenizer

__all__ = ["batched"]

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
