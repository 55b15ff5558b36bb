"""Prompts of any length into a fixed-shape cache of transformers, whether it is empty or not."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from transformers import StaticCache

from logitkit.sessions import prefill_mask
from logitkit_adapters.sessions.fixed_cache import FixedCache, fixed_cache
from logitkit_adapters.sessions.prefill_arguments import (
    between,
    beyond_the_columns,
    check,
    columns_at_a_time,
    pattern,
    prefix_in,
    present_in,
    value_of,
)

__all__ = ["FixedCache", "fixed_cache", "prefill"]


def prefill(
    model: Any,
    input_ids: Tensor,
    cache: FixedCache | StaticCache,
    *,
    attention_mask: Tensor | None = None,
    mask: Tensor | None = None,
    mode: Literal["causal", "prefix", "forced"] = "causal",
    prefix_lengths: Tensor | int | None = None,
    chunk_length: int | None = None,
) -> FixedCache:
    """Feed a prompt, or a part of one, into a cache whose shape is fixed.

    A token is written at the slot `index + its column` and sees `slot <= index + column`, of these the slots that hold
    a token of its row, and of these what `mask` allows. However a prompt is split into calls, and whatever is in the
    slots beyond the index, logits and cache are the same. No processor is called for a prompt: give the logits of the
    last token to it.

    All shapes follow from those of the arguments, and the index is a tensor: compile the model, or `prefill`, with
    `torch.compile(fullgraph=True, dynamic=False)`, and there is one graph for each number of columns (of contiguous
    ids). While a graph of `prefill` is traced only shapes are checked: an overflow is then an assertion of torch, and
    a value that has been overwritten is not noticed.

    Args:
        model: A causal language model of transformers with `sdpa` or `eager` attention, compiled or not, whose
            layers all have full attention.
        input_ids: [B, T] integers.
        cache: A value of `fixed_cache` or of an earlier call, which is rolled back to; or a `StaticCache`, of which all
            slots below its index hold tokens.
        attention_mask: [B, T] of 0 and 1, 0 where a column is a pad of its row: rows may be of any length, and the
            pads left, right or between. Positions do not count pads. Or [B, max], which says it of all slots.
        mask: Of 0 and 1, 1 where a column may see another: [T, T], [B, T, T] or [B, heads, T, T] between the columns
            of this call, or with the slots as last dimension, [..., T, max].
        mode: "causal"; "prefix" for a prefix-LM, where the columns of the prefix see one another; "forced" to feed one
            column at a time, as if the model had written it.
        prefix_lengths: [B] or one number, how many columns of this call are the prefix. Default: all. It takes no other graph
            for another number, but where a function of yours that calls `prefill` is compiled: give it a tensor there.
        chunk_length: Feed at most so many columns at a time, to bound memory.

    Returns:
        The cache with the new tokens, and the logits behind the last token of each row. A row of which all columns
        are pads keeps its logits.

    Raises:
        ConfigurationError: The tokens do not fit into the cache, the value has been overwritten, a mask has another
            shape or other values, or the model cannot do it. Nothing has changed then.
        BatchMismatch: There are not as many rows of ids as of the cache.

    Example:
        >>> import torch
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.transformers import fixed_cache, prefill
        >>> model = AutoModelForCausalLM.from_pretrained(model_dir())
        >>> ids = AutoTokenizer.from_pretrained(model_dir())("The price of", return_tensors="pt")["input_ids"]
        >>> held = fixed_cache(model, batch_size=1, max_length=64)
        >>> for chunk in ids.split(2, dim=1):
        ...     held = prefill(model, chunk, held)
        >>> held.length == ids.shape[1]
        True
        >>> torch.allclose(held.logits, model(ids).logits[:, -1], atol=1e-4)
        True
    """
    # These lines are no part of a graph: see `allocate`. A number would be one.
    if isinstance(prefix_lengths, int) and not isinstance(prefix_lengths, bool):
        if mode == "prefix" and not 0 <= prefix_lengths <= input_ids.shape[-1]:
            raise beyond_the_columns(prefix_lengths, input_ids.shape[-1])
        prefix_lengths = torch.tensor(prefix_lengths)
    return _fed(model, input_ids, cache, attention_mask, mask, mode, prefix_lengths, chunk_length)


@torch.no_grad()
def _fed(
    model: Any,
    input_ids: Tensor,
    cache: FixedCache | StaticCache,
    attention_mask: Tensor | None,
    mask: Tensor | None,
    mode: str,
    prefix_lengths: Tensor | int | None,
    chunk_length: int | None,
) -> FixedCache:
    held = value_of(model, cache, len(input_ids))
    check(model, input_ids, held)
    step = columns_at_a_time(input_ids.shape[1], mode, prefix_lengths, chunk_length)
    slots, present = present_in(input_ids, held, attention_mask)
    prefix = prefix_in(input_ids, mode, prefix_lengths)
    seen = pattern(input_ids, held, prefix)
    allowed = prefill_mask.attention(seen, slots, held.filled, between(mask, input_ids, held.max_length))
    positions = prefill_mask.positions(slots, held.filled, present)

    held.begin()
    logits = held.logits
    try:
        for first in range(0, input_ids.shape[1], step):
            columns = slice(first, first + step)
            output = model(
                # Strides belong to the shapes that a graph is compiled for.
                input_ids=input_ids[:, columns].contiguous(),
                attention_mask=_as_taken(model, allowed[:, :, columns]).contiguous(),
                position_ids=positions[:, columns].contiguous(),
                past_key_values=held.cache,
                use_cache=True,
                logits_to_keep=1 if attention_mask is None else 0,
            ).logits
            logits = output[:, -1] if attention_mask is None else _behind_last(output, present[:, columns], logits)
    except BaseException:
        # A value that was rolled back to stays one; while a graph is traced, nothing has happened yet.
        if not torch.compiler.is_compiling():
            held.set_index()
        raise
    return held.extended(input_ids.shape[1], slots, logits, prefix)


def _as_taken(model: Any, allowed: Tensor) -> Tensor:
    """Return a mask in the form that the attention of the model takes."""
    if model.config._attn_implementation == "sdpa":  # noqa: SLF001
        return allowed
    return torch.where(allowed, 0.0, torch.finfo(model.dtype).min).to(model.dtype)


def _behind_last(given: Tensor, present: Tensor, before: Tensor) -> Tensor:
    """Return the logits behind each row's last token, [B, V]; those from before where a row has none.

    Args:
        given: [B, T, V].
        present: [B, T] bool, which columns are tokens.
        before: [B, V].
    """
    columns = torch.arange(present.shape[1], device=present.device)
    last = torch.where(present, columns, -1).amax(1)
    rows = torch.arange(len(given), device=given.device)
    return torch.where((last >= 0)[:, None], given[rows, last.clamp(min=0)], before.to(given.dtype))
