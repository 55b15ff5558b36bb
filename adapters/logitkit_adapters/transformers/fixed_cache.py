"""A fixed-shape transformers cache with its contents as a value: earlier values are points to roll back to."""

from __future__ import annotations

import copy
from types import CodeType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import StaticCache

from logitkit.errors import ConfigurationError
from logitkit.parameters.scalars import checked_integer
from logitkit_adapters.transformers.cache_argument import cache_argument
from logitkit_adapters.transformers.static_layers import check_layers, check_writable, layers_of, repeated

__all__ = ["FixedCache", "fixed_cache"]


# The code of functions that a compiled graph's caller runs outside the graph.
OUT_OF_GRAPHS: list[CodeType] = []
# For each cache, the tensors that all its values share: the call that wrote each slot, and the index.
_SHARED: WeakKeyDictionary[StaticCache, tuple[Tensor, Tensor]] = WeakKeyDictionary()


class FixedCache(NamedTuple):
    """A `StaticCache` of transformers and its contents; `fixed_cache` creates an empty one, `prefill` extends it.

    The tensors of `cache` are written in place, only after the index. So an earlier value stays valid when later ones are made
    from it, and passing it to `prefill` again rolls back to it. After that, or after `generate` has continued from a rollback,
    the later values are invalid, which `prefill` detects.

    Args:
        cache: The cache to pass to `model(...)` and `generate(...)`, as `cache` from transformers 5.24 on and as
            `past_key_values` before. Its own index is that of the last value made.
        filled: The number of filled slots, a scalar int64.
        slots: [B, max] bool, which slots hold a token of the row; the others below the index hold padding. This is the
            `attention_mask` of transformers for the cached tokens.
        logits: [B, V], after the last token of each row; NaN if no token has been fed, or after a rollback.
        written: [max + 1] int64, the call that wrote each slot, and the number of calls; shared by all values of a cache.
        seen: [max + 1] int64, `written` when this value was made.
        cuts: [max + 1] bool, the lengths at which the cache may be cut: False inside the prefix of a prefix-LM.
        left_at: The index of `cache` after the last `prefill` or rollback, a scalar int64, shared by all values of a cache:
            anything else that writes to the cache moves its index.
    """

    cache: StaticCache
    filled: Tensor
    slots: Tensor
    logits: Tensor
    written: Tensor
    seen: Tensor
    cuts: Tensor
    left_at: Tensor

    @property
    def length(self) -> int:
        """The number of filled slots; reading it waits for the device."""
        return int(self.filled)

    @property
    def max_length(self) -> int:
        """The number of slots."""
        return self.slots.shape[1]

    def rollback(self, length: int) -> FixedCache:
        """Return the value with only the first slots, and set the index of `cache` to them.

        Args:
            length: The number of slots to keep, at most `length`.

        Raises:
            ConfigurationError: There are fewer slots, they have been overwritten, or the cut is inside the prefix of a
                prefix-LM, whose tokens have attended to each other. Nothing has changed then.
        """
        self.check()
        check_writable(self.cache)
        length = checked_integer("length", length, 0, self.length, "the filled slots")
        self._check_cut(length)
        # The logits after the last token are known only if nothing was removed.
        logits = self.logits if length == self.length else torch.full_like(self.logits, torch.nan)
        kept = self.slots & (torch.arange(self.max_length, device=self.slots.device) < length)
        shorter = self._replace(filled=torch.full_like(self.filled, length), slots=kept, logits=logits)
        shorter.set_index()
        return shorter

    def fan_out(self, samples: int) -> FixedCache:
        """Return a value of a new cache that contains each row `samples` times, one after another.

        Args:
            samples: The number of copies, at least 1.

        Raises:
            ConfigurationError: The number is less than 1, or slots of this value have been overwritten.
        """
        self.check()
        samples = checked_integer("samples", samples, 1, 2**31 - 1)
        cache = copy.copy(self.cache)
        with torch.inference_mode(False):
            cache.layers = [repeated(layer, samples) for layer in layers_of(self.cache)]
            slots, logits = (t.repeat_interleave(samples, 0) for t in (self.slots, self.logits))
            wider = self._replace(
                cache=cache, slots=slots, logits=logits, written=self.written.clone(), left_at=self.left_at.clone()
            )
        wider.set_index()
        _SHARED[cache] = wider.written, wider.left_at
        return wider

    def check(self) -> None:
        """Raise `ConfigurationError` if slots that this value holds have been overwritten."""
        self.notice_writes()
        length = self.length
        if not torch.equal(self.written[:length], self.seen[:length]):
            raise ConfigurationError(
                f"of the {length} slots that this value holds, some have been overwritten: prefill, generate or the model "
                "continued an earlier value. Use the latest value, or call fan_out before you branch"
            )

    def _check_cut(self, length: int) -> None:
        if bool(self.cuts[length]):
            return
        allowed = self.cuts[: self.length + 1].nonzero()[:, 0]
        begin, end = int(allowed[allowed < length][-1]), int(allowed[allowed > length][0])
        raise ConfigurationError(
            f"a rollback to {length} slots would cut the prefix in slots {begin} to {end - 1}, whose tokens see each other; roll "
            f"back to {begin} or {end} slots, and feed the prefix again"
        )

    def set_index(self) -> None:
        """Set the index of the cache's layers to that of this value."""
        for layer in layers_of(self.cache):
            layer.cumulative_length.copy_(self.filled)
        self.left_at.copy_(self.filled)

    def notice_writes(self) -> None:
        """Mark the slots that something else has written: it moved the index of the cache, but not the index recorded here."""
        index = layers_of(self.cache)[0].cumulative_length
        if not torch.compiler.is_compiling() and torch.equal(index, self.left_at):
            return
        slot = torch.arange(self.max_length + 1, device=index.device)
        between = (slot >= self.left_at) & (slot < index)
        # An index below ours means that the cache was emptied. The last entry counts the calls.
        others = (index != self.left_at) & (between | (index < self.left_at) | (slot == self.max_length))
        self.written.copy_(torch.where(others, self.written[-1] + 1, self.written))
        self.left_at.copy_(index)

    def begin(self) -> None:
        """Prepare the cache for tokens after this value; values made from it before become invalid."""
        after = torch.arange(self.max_length + 1, device=self.filled.device) >= self.filled
        self.written.copy_(torch.where(after, self.written[-1] + 1, self.written))
        # A weight of 0 times NaN is NaN, so masking a slot is not enough.
        for layer in layers_of(self.cache):
            layer.keys.masked_fill_(after[:-1, None], 0)
            layer.values.masked_fill_(after[:-1, None], 0)
        self.set_index()

    def extended(self, count: int, slots: Tensor, logits: Tensor, prefix: Tensor | None = None) -> FixedCache:
        """Return the value with `count` more slots.

        Args:
            count: The number of new slots.
            slots: As in the value.
            logits: As in the value.
            prefix: [B] int64, the number of new tokens in each row that see each other; None: none.
        """
        offset = torch.arange(len(self.cuts), device=self.cuts.device) - self.filled
        whole = torch.ones_like(self.cuts) if prefix is None else offset >= prefix.amax()
        # Slots that were rolled back have left marks after the index.
        cuts = torch.where(offset > 0, whole, self.cuts)
        self.left_at.copy_(self.filled + count)
        return self._replace(
            filled=self.filled + count, slots=slots, logits=logits, seen=self.written.clone(), cuts=cuts
        )


def fixed_cache(model: Any, batch_size: int, max_length: int) -> FixedCache:
    """Create an empty cache of fixed shape, for `prefill`.

    Args:
        model: A causal language model of transformers, compiled or not, whose layers all have full attention.
        batch_size: The number of rows.
        max_length: The number of slots, for prompt and output together.

    Returns:
        The cache, allocated.

    Raises:
        ConfigurationError: A number is less than 1, or the model has other layers.

    Example:
        >>> from transformers import AutoModelForCausalLM
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.transformers import fixed_cache
        >>> model = AutoModelForCausalLM.from_pretrained(model_dir())
        >>> empty = fixed_cache(model, batch_size=2, max_length=64)
        >>> empty.length, empty.max_length, empty.logits.shape
        (0, 64, torch.Size([2, 1280]))
    """
    batch_size = checked_integer("batch_size", batch_size, 1, 2**31 - 1)
    max_length = checked_integer("max_length", max_length, 1, 2**31 - 1)
    # Outside `inference_mode`, because tensors created inside can only be written to inside.
    with torch.inference_mode(False):
        cache = StaticCache(config=model.config, max_cache_len=max_length)
    return allocate(model, cache, batch_size)


def allocate(model: Any, cache: StaticCache, rows: int) -> FixedCache:
    """Allocate a new cache, and return its value."""
    check_layers(cache)
    check_writable(cache)
    model = getattr(model, "_orig_mod", model)
    # One token reveals the shapes of all layers and of the logits, in any architecture.
    ids = torch.zeros(rows, 1, dtype=torch.int64, device=model.device)
    with torch.inference_mode(layers_of(cache)[0].cumulative_length.is_inference()), torch.no_grad():
        logits = model(input_ids=ids, use_cache=True, **{cache_argument(model): cache}).logits[:, -1]
        cache.reset()  # type: ignore[no-untyped-call]
        _leave_out_of_graphs()
        return held_by(cache, torch.full_like(logits, torch.nan))


def _leave_out_of_graphs() -> None:
    """Let graphs of the functions in `OUT_OF_GRAPHS` start after the lines that create tensors from numbers."""
    # Imported here, where a model has already done so: the import takes seconds.
    from torch._dynamo.eval_frame import skip_code

    for code in OUT_OF_GRAPHS:
        skip_code(code)


def held_by(cache: StaticCache, logits: Tensor) -> FixedCache:
    """Return the value of a cache that holds tokens in all slots below its index.

    Args:
        cache: An allocated cache.
        logits: [B, V], after the last token.
    """
    layer = layers_of(cache)[0]
    with torch.inference_mode(False):
        filled = layer.cumulative_length.clone()
        below = (torch.arange(layer.max_cache_len, device=filled.device) < filled).repeat(len(logits), 1)
        # 0 means: not written by any call.
        zeros = torch.zeros(layer.max_cache_len + 1, dtype=torch.int64, device=filled.device)
        written, left_at = zeros, filled.clone()
    if not torch.compiler.is_compiling():
        written, left_at = _SHARED.setdefault(cache, (written, left_at))
    held = FixedCache(cache, filled, below, logits, written, zeros, torch.ones_like(zeros, dtype=torch.bool), left_at)
    held.notice_writes()
    return held._replace(seen=written.clone())
