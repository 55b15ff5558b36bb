"""The arguments of `prefill`: checked, and converted to the arguments of the model."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor
from transformers import StaticCache

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.parameters.scalars import checked_integer
from logitkit.sessions import prefill_mask
from logitkit_adapters.transformers.fixed_cache import FixedCache, allocate, held_by
from logitkit_adapters.transformers.static_layers import check_layers, check_writable, layers_of

__all__ = [
    "between",
    "beyond_the_columns",
    "check",
    "check_tensor",
    "columns_at_a_time",
    "prefix_in",
    "present_in",
    "value_of",
]


def value_of(model: Any, cache: FixedCache | StaticCache, rows: int) -> FixedCache:
    """Return the contents of a cache; allocates a new `StaticCache`."""
    if isinstance(cache, FixedCache):
        return cache
    if not isinstance(cache, StaticCache):
        raise ConfigurationError(
            f"cache is of type {type(cache).__name__}; give a FixedCache, as fixed_cache and prefill return it, or a StaticCache"
        )
    check_layers(cache)
    if not cache.is_initialized:
        return allocate(model, cache, rows)
    vocabulary_size = model.config.get_text_config(decoder=True).vocab_size
    keys = layers_of(cache)[0].keys
    return held_by(cache, keys.new_full((keys.shape[0], vocabulary_size), torch.nan))


def check(model: Any, input_ids: Tensor, held: FixedCache) -> None:
    """Raise if the ids or the model are not allowed, or the ids do not fit."""
    # A tensor made from an empty list has a floating-point dtype.
    are_ids = input_ids.dtype in (torch.int64, torch.int32) or not input_ids.numel()
    if input_ids.dim() != 2 or not are_ids:
        raise ConfigurationError(
            f"input_ids is a {input_ids.dtype} tensor of shape {list(input_ids.shape)}; give ids [B, T]"
        )
    if len(input_ids) != len(held.slots):
        raise BatchMismatch(f"input_ids has {len(input_ids)} rows, but the cache has {len(held.slots)}")
    count = input_ids.shape[1]
    if torch.compiler.is_compiling():
        torch._assert_async(held.filled + count <= held.max_length, "the tokens do not fit into the cache")  # noqa: SLF001
        return
    forward = getattr(model, "_orig_mod", model).forward
    kind = model.config._attn_implementation  # noqa: SLF001
    if kind not in ("sdpa", "eager"):
        raise ConfigurationError(
            f"the model's attention is {kind!r}, which does not support a separate mask for each token; load the model with "
            "attn_implementation='sdpa' or 'eager'"
        )
    if "position_ids" not in inspect.signature(forward).parameters:
        raise ConfigurationError(
            f"{type(model).__name__} does not accept position_ids, which a part of a prompt needs; call it without prefill"
        )
    size = model.config.get_text_config(decoder=True).vocab_size
    # Ids on a device are not read.
    if input_ids.device.type == "cpu" and bool(((input_ids < 0) | (input_ids >= size)).any()):
        raise ConfigurationError(
            f"input_ids has ids from {int(input_ids.min())} to {int(input_ids.max())}; allowed are 0 to {size - 1}"
        )
    check_writable(held.cache)
    held.check()
    if held.length + count > held.max_length:
        raise ConfigurationError(
            f"{held.length} slots are filled and {count} more are needed, but the cache has {held.max_length}; create a longer "
            "one with fixed_cache, or roll back"
        )


def check_tensor(name: str, given: object, shape: str) -> None:
    """Raise `ConfigurationError` if an argument is not a tensor."""
    if not isinstance(given, Tensor):
        raise ConfigurationError(
            f"{name} is of type {type(given).__name__}; give a tensor {shape}, such as torch.tensor({name})"
        )


def columns_at_a_time(count: int, mode: str, prefix_lengths: object, chunk_length: int | None) -> int:
    """Return the number of columns fed at once."""
    if mode not in ("causal", "prefix", "forced"):
        raise ConfigurationError(f"mode is {mode!r}; allowed are 'causal', 'prefix' and 'forced'")
    if prefix_lengths is not None and mode != "prefix":
        raise ConfigurationError(f"prefix_lengths is given, but mode is {mode!r}; give mode='prefix'")
    if chunk_length is None:
        return 1 if mode == "forced" else count
    if mode != "causal":
        raise ConfigurationError(
            f"chunk_length is given, but mode is {mode!r}: a prefix must be fed at once, and forced tokens one by one"
        )
    return checked_integer("chunk_length", chunk_length, 1, 2**31 - 1)


def present_in(input_ids: Tensor, held: FixedCache, attention_mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the slots that hold tokens of their rows after the call, [B, max], and the columns that are tokens, [B, T]."""
    if attention_mask is None:
        present = torch.ones_like(input_ids, dtype=torch.bool)
        return prefill_mask.held_after(held.slots, held.filled, present), present
    rows, count = input_ids.shape
    check_tensor("attention_mask", attention_mask, f"[{rows}, {count}]")
    if list(attention_mask.shape) not in ([rows, count], [rows, held.max_length]):
        raise ConfigurationError(
            f"attention_mask is {list(attention_mask.shape)}; allowed are [{rows}, {count}], for the columns of this call, and "
            f"[{rows}, {held.max_length}], for all slots"
        )
    given = _booleans("attention_mask", attention_mask, input_ids.device)
    if given.shape[1] == count:
        return prefill_mask.held_after(held.slots, held.filled, given), given
    present = given[:, (held.filled + torch.arange(count, device=given.device)).clamp(max=held.max_length - 1)]
    return prefill_mask.held_after(given, held.filled, present), present


def prefix_in(input_ids: Tensor, mode: str, prefix_lengths: Tensor | int | None) -> Tensor | None:
    """Return the number of prefix columns of each row, [B], or None for modes without a prefix."""
    if mode != "prefix":
        return None
    rows, count = input_ids.shape
    given = count if prefix_lengths is None else prefix_lengths
    try:
        lengths = torch.as_tensor(given, device=input_ids.device)
    except (TypeError, ValueError, RuntimeError):
        # Neither is a number of a kind that a length can have.
        lengths = torch.empty(0)
    if lengths.is_floating_point() or lengths.dtype == torch.bool or list(lengths.shape) not in ([], [rows]):
        raise ConfigurationError(f"prefix_lengths is {prefix_lengths!r}; give one integer, or [{rows}] of them")
    if not torch.compiler.is_compiling() and not bool(((lengths >= 0) & (lengths <= count)).all()):
        raise beyond_the_columns(lengths.tolist(), count)
    return lengths.expand(rows)


def beyond_the_columns(lengths: object, count: int) -> ConfigurationError:
    """Return the error for a prefix with more columns than the call."""
    return ConfigurationError(
        f"prefix_lengths is {lengths}; allowed are 0 to {count}, the columns of this call: a prefix must be fed at once, since "
        "its first token sees its last"
    )


def between(mask: Tensor | None, input_ids: Tensor, slots: int, heads: int) -> Tensor | None:
    """Return the caller's mask as bool."""
    if mask is None:
        return None
    rows, count = input_ids.shape
    check_tensor("mask", mask, f"[{count}, {count}]")
    fits = 2 <= mask.dim() <= 4 and mask.shape[-2] == count and mask.shape[-1] in (count, slots)
    fits = fits and (mask.dim() < 3 or mask.shape[0] in (1, rows)) and (mask.dim() < 4 or mask.shape[1] in (1, heads))
    if not fits:
        raise ConfigurationError(
            f"mask is {list(mask.shape)}; allowed are [{count}, {count}] and [{count}, {slots}], optionally preceded by "
            f"[{rows}] or [{rows}, {heads}], the numbers of rows and of heads; either may be 1"
        )
    return _booleans("mask", mask, input_ids.device)


def _booleans(name: str, mask: Tensor, device: torch.device) -> Tensor:
    mask = mask.to(device)
    if mask.dtype == torch.bool:
        return mask
    if not torch.compiler.is_compiling() and not bool(((mask == 0) | (mask == 1)).all()):
        raise ConfigurationError(f"{name} has values other than 0 and 1; give 1 where attention is allowed, else 0")
    return mask != 0
