"""Batches in transformers: left padding, explicit masks and positions, and caches that are values."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import Cache, DynamicCache

from logitkit.sessions.cache_port import SavedCache
from logitkit.sessions.packing import Packing
from logitkit.sessions.sequence_state import SequenceState
from logitkit_adapters.sessions.checksum import checksum
from logitkit_adapters.transformers.batch_cache import branched, cache_of, plain_layers

__all__ = ["TransformersBatches"]

FILE = "transformers.safetensors"
# Configuration entries on where the model was read from, and by which version.
NO_MATTER = frozenset({"_name_or_path", "transformers_version"})
FULL_LENGTH = frozenset({"full_attention", "sliding_attention", "chunked_attention"})


class TransformersBatches:
    """A causal language model of transformers.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        make_cache: Returns an empty cache; default: a `DynamicCache` that keeps all tokens, including those outside a sliding
            window.
    """

    one_by_one = False

    def __init__(self, model: Any, tokenizer: Any, make_cache: Callable[[], Cache] | None) -> None:
        self.model = model
        self.tokenizer = tokenizer
        # Each run has its own cache, and changes none that a state holds.
        self.lock = nullcontext()
        self.device = model.device
        config = model.config.get_text_config(decoder=True)
        self.max_length: int | None = getattr(config, "max_position_embeddings", None)
        self.eos_ids = frozenset(
            i
            for found in (getattr(model.generation_config, "eos_token_id", None), tokenizer.eos_token_id)
            for i in (found if isinstance(found, list | tuple) else [found])
            if i is not None
        )
        # Masks implement the windows, because a cache that forgets tokens cannot be cut.
        keeps_all = FULL_LENGTH.issuperset(getattr(config, "layer_types", None) or ())
        self.make_cache = make_cache or (DynamicCache if keeps_all else lambda: DynamicCache(config=model.config))
        # From the class, because the method of an object may be wrapped.
        self.parameters = inspect.signature(type(model).forward).parameters

    @property
    def kind(self) -> str:
        """Identifies the model by its configuration, parameters and buffers, all of which are read."""
        config = {key: value for key, value in self.model.config.to_dict().items() if key not in NO_MATTER}
        digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
        # Quantised weights may be buffers. Buffers that are not saved are computed from the configuration, which is included.
        saved = self.model.state_dict()
        buffers = ((name, buffer) for name, buffer in self.model.named_buffers() if name in saved)
        for name, values in (*self.model.named_parameters(), *buffers):
            digest.update(f"{name}{tuple(values.shape)}{values.dtype}{checksum(values)}".encode())
        return f"transformers {type(self.model).__name__} {digest.hexdigest()}"

    def run(self, state: SequenceState) -> TransformersRun:
        """Return a run of the rows of a state."""
        cache, cached = None, 0
        if state.kv_cache is not None and self.owns(state):
            cache, cached = branched(state.kv_cache), state.cached
        return TransformersRun(self, state, cache, cached if cache is not None else 0)

    def owns(self, state: SequenceState) -> bool:
        """Return whether the cache of a state belongs to this model."""
        return isinstance(state.port, TransformersBatches) and state.port.model is self.model

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

    def load(self, folder: os.PathLike[str]) -> Cache | None:
        """Read a cache written by `save`, or return None."""
        try:
            tensors = load_file(Path(folder) / FILE, device=str(self.device))
            pairs: list[Any] = [(tensors[f"keys.{i}"], tensors[f"values.{i}"]) for i in range(len(tensors) // 2)]
        except (OSError, SafetensorError, KeyError):
            return None
        return cache_of(pairs)

    def opened(self, state: SequenceState) -> Cache | None:
        """Return the cache that a loaded state refers to, or None if it does not belong to this model or fit the state."""
        saved = state.kv_cache
        if not isinstance(saved, SavedCache) or saved.kind != self.kind:
            return None
        cache = self.load(Path(saved.folder))
        if cache is None or _size(cache) != (saved.rows, saved.cached):
            return None
        return cache if saved.packing is None else self.repacked(cache, saved.packing)


def _size(cache: Cache) -> tuple[int, int]:
    """Return the number of rows and columns of a cache."""
    layers = plain_layers(cache) or ()
    rows = next((len(layer[0]) for layer in layers if layer), 0)
    return rows, int(cache.get_seq_length())


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

    def step(self, tokens: Tensor, goes_on: Tensor) -> Tensor:
        """Feed one token per row."""
        return self._feed(tokens[:, None], goes_on.to(self._masks.dtype)[:, None])

    def select(self, rows: Tensor) -> None:
        """Continue with the given rows."""
        self._cache.batch_select_indices(rows)
        self._masks = self._masks[rows]

    def only(self, row: int) -> TransformersRun:
        """Raise: all rows run together."""
        raise NotImplementedError

    def cache(self) -> Cache:
        """Return the cache."""
        return self._cache

    @torch.no_grad()
    def _feed(self, tokens: Tensor, masks: Tensor) -> Tensor:
        self._masks = torch.cat([self._masks, masks], 1)
        options: dict[str, Any] = {}
        if "position_ids" in self._engine.parameters:
            options["position_ids"] = (self._masks.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        if "logits_to_keep" in self._engine.parameters:
            options["logits_to_keep"] = 1
        output = self._engine.model(
            input_ids=tokens, attention_mask=self._masks, past_key_values=self._cache, use_cache=True, **options
        )
        logits: Tensor = output.logits[:, -1].to(torch.float32)
        return logits
