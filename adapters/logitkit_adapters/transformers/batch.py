"""Batches in transformers: left padding, explicit masks and positions, and caches that are values."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer

from logitkit.sessions.cache_port import SavedCache
from logitkit.sessions.packing import Packing
from logitkit.sessions.sequence_state import SequenceState
from logitkit.sessions.text_tokenizer import TextTokenizer
from logitkit_adapters.sessions.batch import BatchEngine
from logitkit_adapters.transformers.model import TransformersModel

__all__ = ["TransformersBatches", "branched", "cache_of", "plain_layers"]

# The keys and values of a layer, [R, heads, columns, size]; None for a layer that uses those of another.
Layers = Sequence[tuple[Tensor, Tensor] | None]


def plain_layers(cache: Any) -> Layers | None:
    """Return the keys and values of a cache, or None if it may have dropped or changed some."""
    if type(cache) is not DynamicCache or any(type(layer) is not DynamicLayer for layer in cache.layers):
        return None
    layers: list[Any] = cache.layers
    return [(layer.keys, layer.values) if layer.is_initialized else None for layer in layers]


def cache_of(layers: Layers) -> DynamicCache:
    """Return a cache of keys and values."""
    cache, made = DynamicCache(), []
    for pair in layers:
        layer: Any = DynamicLayer()  # type: ignore[no-untyped-call]
        if pair is not None:
            layer.lazy_initialization(*pair)
            layer.keys, layer.values = pair
        made.append(layer)
    cache.layers = made
    return cache


def branched(cache: Cache) -> Cache | None:
    """Return a cache that can be fed without changing the given one, or None if it cannot be copied."""
    layers = plain_layers(cache)
    if layers is not None:
        return cache_of(layers)
    try:
        return copy.deepcopy(cache)
    except (RuntimeError, TypeError, NotImplementedError):
        return None


FILE = "transformers.safetensors"
# The number of logits of one forward pass: a gigabyte in float32.
MOST_LOGITS = 2**28
FULL_LENGTH = frozenset({"full_attention", "sliding_attention", "chunked_attention"})


class TransformersBatches(BatchEngine):
    """A causal language model of transformers; see `BatchEngine` for its methods.

    Args:
        model: The model.
        engine: The model as an engine of single sequences.
        make_cache: Returns an empty cache; default: a `DynamicCache` that keeps all tokens, including those outside a sliding
            window.
    """

    def __init__(self, model: Any, engine: TransformersModel, make_cache: Callable[[], Cache] | None) -> None:
        super().__init__(model, engine, "transformers")
        # Each run has its own cache, and changes none that a state holds.
        self.lock = nullcontext()
        self.eos_ids = engine.eos_ids | TextTokenizer(engine.tokenizer).eos_ids
        # Masks implement the windows, because a cache that forgets tokens cannot be cut.
        kinds = getattr(model.config.get_text_config(decoder=True), "layer_types", None) or ()
        whole = FULL_LENGTH.issuperset(kinds)
        self.make_cache = make_cache or (DynamicCache if whole else lambda: DynamicCache(config=model.config))
        self.options = engine.last_only
        self.takes_positions = engine.takes_positions
        self.cache_argument = engine.cache_argument

    def run(self, state: SequenceState) -> TransformersRun:
        """Return a run of the rows of a state."""
        held = state.kv_cache is not None and self.owns(state)
        cache = branched(state.kv_cache) if held else None
        return TransformersRun(self, state, cache, 0 if cache is None else state.cached)

    @torch.no_grad()
    def continuations(self, prompt: Sequence[int], rows: Sequence[Sequence[int]]) -> Iterator[Tensor]:
        """Yield the logits of each row; the rows run together, after one pass over the prompt."""
        cache, engine = self.make_cache(), self.engine
        assert isinstance(engine, TransformersModel)
        ids = torch.tensor([list(prompt)], device=self.device)
        options = {"use_cache": True, engine.cache_argument: cache, **engine.positions(0, len(prompt)), **self.options}
        first = self.model(input_ids=ids, **options).logits[0, -1:].to(torch.float32)
        width = max(map(len, rows))
        if not width:
            yield from [first] * len(rows)
            return
        count = max(MOST_LOGITS // (width * first.shape[1]), 1)
        for group in (rows[at : at + count] for at in range(0, len(rows), count)):
            # Padding on the right: no token sees it.
            ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in group], device=self.device)
            several = engine.copied(cache)
            several.batch_repeat_interleave(len(group))
            options = {"use_cache": True, engine.cache_argument: several}
            output = self.model(input_ids=ids, **options, **engine.positions(len(prompt), len(prompt) + width))
            for row, logits in zip(group, output.logits, strict=True):
                yield torch.cat([first, logits[: len(row)].to(torch.float32)])

    def repacked(self, cache: Cache, packing: Packing) -> Cache | None:
        """Return a cache of other rows and columns, or None if this one cannot be cut.

        A key keeps the position that it was computed for in any column, because positions count tokens, not columns.
        """
        if packing.is_identity and packing.cached == cache.get_seq_length():
            return cache
        layers = plain_layers(cache)
        if layers is None:
            return None
        columns = packing.columns[:, : packing.cached].clamp(min=0)

        def picked(values: Tensor) -> Tensor:
            if packing.is_identity:
                return values[:, :, : packing.cached]
            places = columns.to(values.device)[:, None, :, None].expand(-1, values.shape[1], -1, values.shape[3])
            return values.index_select(0, packing.rows.to(values.device)).gather(2, places)

        return cache_of([layer and (picked(layer[0]), picked(layer[1])) for layer in layers])

    def batched(self, states: Sequence[SequenceState], paddings: Sequence[int], cached: int) -> Cache | None:
        """Return one cache of the rows of several states, with zeros for padding, which is never read."""
        layers = [plain_layers(state.kv_cache) if self.owns(state) else None for state in states]

        def padded(values: Tensor, padding: int) -> Tensor:
            kept = values[:, :, : max(cached - padding, 0)]
            return torch.nn.functional.pad(kept, (0, 0, cached - kept.shape[2], 0))

        def joined(pairs: Sequence[tuple[Tensor, Tensor] | None]) -> tuple[Tensor, Tensor] | None:
            parts = zip(*(pair for pair in pairs if pair is not None), strict=True)
            found = [torch.cat(list(map(padded, part, paddings))) for part in parts]
            return (found[0], found[1]) if found else None

        plain = [one for one in layers if one is not None]
        return cache_of(list(map(joined, zip(*plain, strict=True)))) if len(plain) == len(layers) else None

    def save(self, cache: Cache, folder: os.PathLike[str]) -> bool:
        """Write a cache of plain layers."""
        layers = plain_layers(cache)
        if layers is None or not all(layers):
            return False
        tensors = {
            f"{name}.{i}": values.to("cpu", copy=True).contiguous()
            for i, layer in enumerate(layers)
            for name, values in zip(("keys", "values"), layer or (), strict=True)
        }
        save_file(tensors, Path(folder) / FILE)
        return True

    def read(self, saved: SavedCache, rows: Sequence[Sequence[int]]) -> Cache | None:
        """Return a cache written by `save`, or None if it does not fit."""
        try:
            tensors = load_file(Path(saved.folder) / FILE, device=str(self.device))
            pairs: list[Any] = [(tensors[f"keys.{i}"], tensors[f"values.{i}"]) for i in range(len(tensors) // 2)]
        except (OSError, SafetensorError, KeyError):
            return None
        cache = cache_of(pairs)
        if {(len(keys), keys.shape[2]) for keys, _ in pairs} != {(saved.rows, saved.cached)}:
            return None
        return cache if saved.packing is None else self.repacked(cache, saved.packing)


class TransformersRun:
    """Rows being generated.

    Args:
        engine: The model.
        state: The rows, with padding on the left only.
        cache: A cache of their first `cached` columns, which nothing else changes.
        cached: The number of cached columns.
    """

    def __init__(self, engine: TransformersBatches, state: SequenceState, cache: Cache | None, cached: int) -> None:
        self._engine = engine
        self._cache = engine.make_cache() if cache is None else cache
        self._rest = state.token_ids[:, cached:], state.attention_masks[:, cached:]
        self._masks = state.attention_masks[:, :cached]

    def start(self) -> Tensor:
        """Feed the uncached tokens."""
        return self._feed(*self._rest)

    def step(self, tokens: Tensor, active: Tensor) -> Tensor:
        """Feed one token per row."""
        return self._feed(tokens[:, None], active.to(self._masks.dtype)[:, None])

    def select(self, rows: Tensor) -> None:
        """Continue with the given rows."""
        self._cache.batch_select_indices(rows)
        self._masks = self._masks[rows]

    def cache(self) -> Cache:
        """Return the cache."""
        return self._cache

    @torch.no_grad()
    def _feed(self, tokens: Tensor, masks: Tensor) -> Tensor:
        self._masks = torch.cat([self._masks, masks], 1)
        options: dict[str, Any] = {**self._engine.options, self._engine.cache_argument: self._cache}
        if self._engine.takes_positions:
            options["position_ids"] = (self._masks.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        output = self._engine.model(input_ids=tokens, attention_mask=self._masks, use_cache=True, **options)
        logits: Tensor = output.logits[:, -1].to(torch.float32)
        return logits
