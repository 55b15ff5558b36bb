"""A fixed-shape cache of transformers and what it holds, as a value: earlier ones are points to roll back to."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import StaticCache
from transformers.cache_utils import StaticLayer

from logitkit.errors import ConfigurationError
from logitkit.integers import checked_integer

__all__ = ["FixedCache", "fixed_cache"]


class FixedCache(NamedTuple):
    """A `StaticCache` of transformers and what it holds; `fixed_cache` makes an empty one, `prefill` a longer one.

    The tensors of `cache` are written in place, behind the index only. So an earlier value stays true while
    later ones are made of it, and giving it to `prefill` again rolls back to it. Once that has been done the
    later ones are not true any more, which `prefill` notices.

    Args:
        cache: What `model(past_key_values=...)` and `generate` take. Its own index is that of the value made last.
        filled: How many slots are held, a scalar int64.
        slots: [B, max] bool, which slots hold a token of the row; the others below the index hold pads. It is the
            `attention_mask` of transformers for what is cached.
        logits: [B, V], behind the last token of each row; NaN where no token has been fed, or was after rolling back.
        written: [max + 1] int64, by which call each slot was written, shared by all values of one cache, and the
            number of calls.
        seen: [max + 1] int64, `written` when this value was made.
        cuts: [max + 1] bool, at which lengths the slots before have not seen those behind: False inside the prefix of a
            prefix-LM.
    """

    cache: StaticCache
    filled: Tensor
    slots: Tensor
    logits: Tensor
    written: Tensor
    seen: Tensor
    cuts: Tensor

    @property
    def length(self) -> int:
        """How many slots are held; it waits for the device."""
        return int(self.filled)

    @property
    def max_length(self) -> int:
        """How many slots there are."""
        return self.slots.shape[1]

    def rollback(self, length: int) -> FixedCache:
        """Return the value that holds the first slots only, and set the index of `cache` to them.

        Args:
            length: How many slots, at most `length`.

        Raises:
            ConfigurationError: There are not so many, they have been overwritten, or the last of them belongs to the prefix of
                a prefix-LM that does not end there: it has seen what would be gone. Nothing has changed then.
        """
        self.check()
        length = checked_integer("length", length, 0, self.length, "the slots that are held")
        self._check_cut(length)
        # What follows the last token is known only where nothing was taken away.
        logits = self.logits if length == self.length else torch.full_like(self.logits, torch.nan)
        shorter = self._replace(
            filled=torch.full_like(self.filled, length),
            slots=self.slots & (torch.arange(self.max_length, device=self.slots.device) < length),
            logits=logits,
        )
        shorter.set_index()
        return shorter

    def fan_out(self, samples: int) -> FixedCache:
        """Return a value of a new cache in which each row stands `samples` times, one after the other.

        Args:
            samples: How many, 1 or more.

        Raises:
            ConfigurationError: It is less than 1, or slots of this value have been overwritten.
        """
        self.check()
        samples = checked_integer("samples", samples, 1, 2**31 - 1)
        cache = copy.copy(self.cache)
        cache.layers = [_repeated(layer, samples) for layer in layers_of(self.cache)]
        written = self.written.clone()
        slots, logits = (t.repeat_interleave(samples, 0) for t in (self.slots, self.logits))
        wider = FixedCache(cache, self.filled.clone(), slots, logits, written, self.seen.clone(), self.cuts)
        wider.set_index()
        return wider

    def check(self) -> None:
        """Raise `ConfigurationError` if slots that this value holds have been overwritten."""
        length = self.length
        if not torch.equal(self.written[:length], self.seen[:length]):
            raise ConfigurationError(
                f"of the {length} slots that this value holds, some have been overwritten since: what was made of "
                "an earlier value took their place. Use the value made last, or fan out before branching"
            )

    def _check_cut(self, length: int) -> None:
        if bool(self.cuts[length]):
            return
        allowed = self.cuts[: self.length + 1].nonzero()[:, 0]
        begin, end = int(allowed[allowed < length][-1]), int(allowed[allowed > length][0])
        raise ConfigurationError(
            f"a rollback to {length} slots would cut the prefix in slots {begin} to {end - 1}, whose tokens have seen one "
            f"another; roll back to {begin} or {end} slots, and feed the prefix anew"
        )

    def set_index(self) -> None:
        """Give the index of this value to the layers of the cache."""
        for layer in layers_of(self.cache):
            layer.cumulative_length.copy_(self.filled)

    def begin(self) -> None:
        """Make the cache ready for the tokens behind this value: what was made of it before is true no more."""
        behind = torch.arange(self.max_length + 1, device=self.filled.device) >= self.filled
        self.written.copy_(torch.where(behind, self.written[-1] + 1, self.written))
        # A weight of 0 times NaN is NaN: that a slot is masked is not enough for it not to matter.
        behind = behind[:-1, None]
        for layer in layers_of(self.cache):
            layer.keys.masked_fill_(behind, 0)
            layer.values.masked_fill_(behind, 0)
        self.set_index()

    def extended(self, count: int, slots: Tensor, logits: Tensor, prefix: Tensor | None = None) -> FixedCache:
        """Return the value that holds so many slots more.

        Args:
            count: How many.
            slots: As in the value.
            logits: As in the value.
            prefix: [B] int64, how many of the new ones see one another in each row; None: none.
        """
        offset = torch.arange(len(self.cuts), device=self.cuts.device) - self.filled
        whole = torch.ones_like(self.cuts) if prefix is None else offset >= prefix.amax()
        # What was rolled back has left its marks behind the index.
        cuts = torch.where(offset > 0, whole, self.cuts)
        return self._replace(
            filled=self.filled + count, slots=slots, logits=logits, seen=self.written.clone(), cuts=cuts
        )


def fixed_cache(model: Any, batch_size: int, max_length: int) -> FixedCache:
    """Make an empty cache of a fixed shape, for `prefill`.

    Args:
        model: A causal language model of transformers, compiled or not, whose layers all have full attention.
        batch_size: How many rows.
        max_length: How many slots, prompt and output together.

    Returns:
        The cache, allocated.

    Raises:
        ConfigurationError: A number is less than 1, or the model has other layers.

    Example:
        >>> from transformers import AutoModelForCausalLM
        >>> from logitkit_adapters.demo import model_dir
        >>> model = AutoModelForCausalLM.from_pretrained(model_dir())
        >>> empty = fixed_cache(model, batch_size=2, max_length=64)
        >>> empty.length, empty.max_length, empty.logits.shape
        (0, 64, torch.Size([2, 1280]))
    """
    batch_size = checked_integer("batch_size", batch_size, 1, 2**31 - 1)
    max_length = checked_integer("max_length", max_length, 1, 2**31 - 1)
    cache = StaticCache(config=model.config, max_cache_len=max_length)
    return allocate(model, cache, batch_size)


def allocate(model: Any, cache: StaticCache, rows: int) -> FixedCache:
    """Allocate a new cache, and return its value."""
    check_layers(cache)
    model = getattr(model, "_orig_mod", model)
    # One token tells the shapes of all layers, and of the logits, whatever the architecture.
    ids = torch.zeros(rows, 1, dtype=torch.int64, device=model.device)
    with torch.no_grad():
        logits = model(input_ids=ids, past_key_values=cache, use_cache=True).logits[:, -1]
    cache.reset()  # type: ignore[no-untyped-call]
    _begin_graphs_behind_arguments()
    return held_by(cache, torch.full_like(logits, torch.nan))


def _begin_graphs_behind_arguments() -> None:
    """Let a compiled `prefill` begin its graph behind the lines that make a tensor of a number."""
    # Here, where a model has brought them along: to import them takes seconds.
    from torch._dynamo.eval_frame import skip_code

    from logitkit_adapters.sessions.prefill import prefill

    skip_code(prefill.__code__)


def held_by(cache: StaticCache, logits: Tensor) -> FixedCache:
    """Return the value of a cache that holds tokens in all slots below its index.

    Args:
        cache: An allocated cache.
        logits: [B, V], behind the last token.
    """
    layer = layers_of(cache)[0]
    index = layer.cumulative_length.clone()
    below = torch.arange(layer.max_cache_len, device=index.device) < index
    # 0: by none of the calls.
    written = torch.zeros(layer.max_cache_len + 1, dtype=torch.int64, device=index.device)
    cuts = torch.ones_like(written, dtype=torch.bool)
    return FixedCache(cache, index, below.repeat(len(logits), 1), logits, written, written.clone(), cuts)


def layers_of(cache: StaticCache) -> list[Any]:
    """Return the layers; transformers declares more kinds of them than `check_layers` lets in."""
    return list(cache.layers)


def check_layers(cache: StaticCache) -> None:
    """Raise `ConfigurationError` unless all layers keep every token, in its slot."""
    other = {type(layer).__name__ for layer in cache.layers if type(layer) is not StaticLayer}
    if other:
        raise ConfigurationError(
            f"the cache has layers of {', '.join(sorted(other))}; prefill needs layers that keep every token "
            "(StaticLayer). For a model with sliding windows or recurrent states, call it without prefill"
        )


def _repeated(layer: Any, samples: int) -> Any:
    other = copy.copy(layer)
    other.keys = layer.keys.repeat_interleave(samples, 0)
    other.values = layer.values.repeat_interleave(samples, 0)
    other.cumulative_length = layer.cumulative_length.clone()
    other.batch_size = layer.batch_size * samples
    for tensor in (other.keys, other.values, other.cumulative_length):
        torch._dynamo.mark_static_address(tensor)  # noqa: SLF001 - as transformers does, for CUDA graphs
    return other
