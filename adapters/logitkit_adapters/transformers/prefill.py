"""Feed prompts of any length into a fixed-shape transformers cache, whether it is empty or not."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from transformers import StaticCache

from logitkit.sessions import prefill_mask
from logitkit_adapters.transformers.cache_argument import cache_argument
from logitkit_adapters.transformers.fixed_cache import OUT_OF_GRAPHS, FixedCache, fixed_cache
from logitkit_adapters.transformers.prefill_arguments import (
    between,
    beyond_the_columns,
    check,
    check_tensor,
    columns_at_a_time,
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
    """Feed a prompt, or a part of one, into a cache of fixed shape.

    A token is written to the slot `index + its column`. It sees the slots up to its own that hold a token of its row and that
    `mask` allows. Logits and cache do not depend on how a prompt is split into calls, or on the contents of slots beyond the
    index. Processors are not called for a prompt: pass them the logits of the last token.

    All shapes depend only on those of the arguments, and the index is a tensor. Compile the model, or `prefill`, with
    `torch.compile(fullgraph=True, dynamic=False)`, and there is one graph per number of columns (of contiguous ids). A traced
    graph of `prefill` only checks shapes: an overflow then fails as an assertion of torch, and an overwritten value is not
    detected.

    Args:
        model: A causal language model of transformers with `sdpa` or `eager` attention, compiled or not, whose layers all have
            full attention.
        input_ids: [B, T] integers. If T is 0, nothing is fed, and the value of the cache is returned.
        cache: A value from `fixed_cache` or from an earlier call, to which the cache is rolled back; or a `StaticCache` whose
            slots below the index all hold tokens.
        attention_mask: [B, T] of 0 and 1, 0 for padding: rows may have any length, with padding on the left, on the right or in
            between. Positions do not count padding. Or [B, max], for all slots.
        mask: 0 and 1, 1 where a column may see another: [T, T], [B, T, T] or [B, heads, T, T] between the columns of this call,
            or with the slots as last dimension, [..., T, max].
        mode: "causal"; "prefix" for a prefix-LM, where the columns of the prefix see each other; "forced" to feed one column at
            a time, as if the model had generated it.
        prefix_lengths: [B] or one number, the number of columns of this call in the prefix. Default: all. Another number needs
            no other graph, unless your own function that calls `prefill` is compiled: pass a tensor there.
        chunk_length: The maximum number of columns fed at once, to limit memory.

    Returns:
        The cache with the new tokens, and the logits after the last token of each row. A row with only padding keeps its logits.

    Raises:
        ConfigurationError: The tokens do not fit into the cache, the value has been overwritten, a mask has another shape or
            other values, or the model does not support it. Nothing has changed then.
        BatchMismatch: The ids and the cache have different numbers of rows.

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
    check_tensor("input_ids", input_ids, "[B, T]")
    # These lines stay outside of graphs, see `allocate`: a number would become part of a graph.
    if isinstance(prefix_lengths, int) and not isinstance(prefix_lengths, bool):
        if mode == "prefix" and not 0 <= prefix_lengths <= input_ids.shape[-1]:
            raise beyond_the_columns(prefix_lengths, input_ids.shape[-1])
        prefix_lengths = torch.tensor(prefix_lengths)
    return _fed(
        model, cache_argument(model), input_ids, cache, attention_mask, mask, mode, prefix_lengths, chunk_length
    )


@torch.no_grad()
def _fed(
    model: Any,
    name: str,
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
    if not input_ids.shape[1]:
        held.set_index()
        return held
    slots, present = present_in(input_ids, held, attention_mask)
    prefix = prefix_in(input_ids, mode, prefix_lengths)
    heads = model.config.get_text_config(decoder=True).num_attention_heads
    shape = (held.filled, input_ids.shape[1], held.max_length)
    seen = prefill_mask.causal(*shape) if prefix is None else prefill_mask.prefix(*shape, prefix)
    allowed = prefill_mask.attention(seen, slots, held.filled, between(mask, input_ids, held.max_length, heads))
    positions = prefill_mask.positions(slots, held.filled, present)

    held.begin()
    logits = held.logits
    try:
        for first in range(0, input_ids.shape[1], step):
            columns = slice(first, first + step)
            output = model(
                # A graph is compiled for strides too.
                input_ids=input_ids[:, columns].contiguous(),
                attention_mask=_as_taken(model, allowed[:, :, columns]).contiguous(),
                position_ids=positions[:, columns].contiguous(),
                use_cache=True,
                logits_to_keep=1 if attention_mask is None else 0,
                **{name: held.cache},
            ).logits
            logits = output[:, -1] if attention_mask is None else _logits_of_last(output, present[:, columns], logits)
    except BaseException:
        # The value that this call began with stays valid; while a graph is traced, nothing has happened yet.
        if not torch.compiler.is_compiling():
            held.set_index()
        raise
    return held.extended(input_ids.shape[1], slots, logits, prefix)


def _as_taken(model: Any, allowed: Tensor) -> Tensor:
    """Return a mask in the form that the model's attention expects."""
    if model.config._attn_implementation == "sdpa":  # noqa: SLF001
        return allowed
    # In the model's dtype from the start, because the lowest float64 exceeds float32.
    return torch.zeros_like(allowed, dtype=model.dtype).masked_fill(~allowed, torch.finfo(model.dtype).min)


def _logits_of_last(given: Tensor, present: Tensor, before: Tensor) -> Tensor:
    """Return the logits after each row's last token, [B, V], or those from before for a row without one.

    Args:
        given: [B, T, V].
        present: [B, T] bool, which columns are tokens.
        before: [B, V].
    """
    columns = torch.arange(present.shape[1], device=present.device)
    last = torch.where(present, columns, -1).amax(1)
    rows = torch.arange(len(given), device=given.device)
    return torch.where((last >= 0)[:, None], given[rows, last.clamp(min=0)], before.to(given.dtype))


OUT_OF_GRAPHS.append(prefill.__code__)
