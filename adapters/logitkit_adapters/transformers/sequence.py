"""A sequence in transformers: one row, with its keys and values in a `Cache`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from logitkit_adapters.sessions.saved_segments import SavedSegments, Segment, first_positions
from logitkit_adapters.sessions.sequence import SavedSequence
from logitkit_adapters.transformers.model import TransformersModel
from logitkit_adapters.transformers.rope import KeyRotation

__all__ = ["TransformersEngine", "TransformersSequence"]


class TransformersEngine(TransformersModel):
    """A causal language model of transformers; see `SequenceEngine` for its methods.

    Args:
        model: The model.
        tokenizer: Its tokenizer, or None if all prompts are token ids.
        make_cache: Returns the empty cache of one sequence; default: the cache that `generate` makes.

    Raises:
        ConfigurationError: The model has an encoder, or no cache.
    """

    def __init__(self, model: Any, tokenizer: Any = None, make_cache: Callable[[], Any] | None = None) -> None:
        super().__init__(model, tokenizer)
        self.make_cache = make_cache or (lambda: DynamicCache(config=model.config))

    @cached_property
    def rotation(self) -> KeyRotation:
        """The rotation of keys by their positions."""
        return KeyRotation(self.model)

    def new(self) -> TransformersSequence:
        """Return an empty sequence."""
        return TransformersSequence(self, (), self.make_cache(), ())

    def restore(self, saved: SavedSequence, length: int) -> TransformersSequence | None:
        """Return a sequence of the first tokens of a snapshot, which shares its memory."""
        assert isinstance(saved, SavedSegments)
        if saved.cache is not None:
            if length != len(saved.tokens):
                return None
            return TransformersSequence(self, saved.tokens, _copied(saved.cache), ())
        origin = first_positions(saved.segments, length)
        cache = self.make_cache()
        if origin:
            for place, parts in enumerate(zip(*(s.layers for s in origin), strict=True)):
                keys, values = (torch.cat(part, 2) if len(part) > 1 else part[0] for part in zip(*parts, strict=True))
                cache.update(keys, values, place)
        return TransformersSequence(self, saved.tokens[:length], cache, origin)

    def resume(self, sequence: TransformersSequence, length: int) -> TransformersSequence | None:
        """Return the first tokens of a sequence that is no longer in use."""
        return (
            TransformersSequence(self, sequence.tokens, sequence.cache, sequence.origin)
            if sequence.trim(length)
            else None
        )

    def check_shift(self) -> None:
        """Raise `ConfigurationError` if the model does not encode positions by rotating keys."""
        self.rotation.check()
        sequence = self.new()
        # The embedding of an ordinary token; that of padding may be all zeros.
        sequence.feed([self.vocabulary_size // 2] * 8)
        if _is_plain(sequence.cache):
            self.rotation.check([layer.keys for layer in sequence.cache.layers])


class TransformersSequence:
    """A sequence in transformers; see `CachedSequence` for its methods.

    Args:
        engine: The model.
        tokens: The tokens whose positions are cached.
        cache: The cache.
        origin: The beginning of the cache, shared with a snapshot.
    """

    def __init__(
        self, engine: TransformersEngine, tokens: tuple[int, ...], cache: Any, origin: tuple[Segment, ...]
    ) -> None:
        self._engine = engine
        self._tokens = list(tokens)
        self.origin = origin
        self.cache = cache
        self.positions_fed = 0
        self.forward_passes = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens whose positions are cached."""
        return tuple(self._tokens)

    @property
    def length(self) -> int:
        """The number of these tokens."""
        return len(self._tokens)

    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model and return float32 logits."""
        engine = self._engine
        ids = torch.tensor([list(tokens)], dtype=torch.int64, device=engine.model.device)
        options: dict[str, Any] = engine.positions(self.length, self.length + len(tokens))
        if not all_positions:
            options |= engine.last_only
        with torch.no_grad():
            output = engine.model(input_ids=ids, past_key_values=self.cache, use_cache=True, **options)
        self._tokens.extend(tokens)
        self.positions_fed += len(tokens)
        self.forward_passes += 1
        logits: Tensor = output.logits[0] if all_positions else output.logits[0, -1]
        return logits.to(torch.float32, copy=True)

    def trim(self, length: int) -> bool:
        """Keep only the first positions."""
        removed = self.length - length
        if removed and not _is_plain(self.cache):
            return False
        if removed:
            for layer in self.cache.layers:
                layer.keys, layer.values = layer.keys[:, :, :length], layer.values[:, :, :length]
            del self._tokens[length:]
            self.origin = first_positions(self.origin, length)
        return True

    def shift(self, drop: int) -> bool:
        """Drop the first positions, and rotate the keys of the others back accordingly."""
        if not _is_plain(self.cache):
            return False
        for layer in self.cache.layers:
            layer.keys = self._engine.rotation.back(layer.keys[:, :, drop:], drop)
            layer.values = layer.values[:, :, drop:]
        del self._tokens[:drop]
        self.origin = ()
        return True

    def fork(self) -> TransformersSequence | None:
        """Return an independent sequence on the same memory."""
        if not (_is_plain(self.cache) or _can_go_on(self.cache)):
            return None
        return TransformersSequence(self._engine, self.tokens, _copied(self.cache), self.origin)

    def save(self) -> SavedSegments | None:
        """Return a snapshot of the cache."""
        if not _is_plain(self.cache):
            return SavedSegments(self.tokens, cache=_copied(self.cache)) if _can_go_on(self.cache) else None
        done = sum(segment.length for segment in self.origin)
        if done < self.length:
            # Copies only the new part: not the shared part, and not a view, which would keep the memory of the whole.
            new = tuple((la.keys[:, :, done:].clone(), la.values[:, :, done:].clone()) for la in self.cache.layers)
            self.origin = (*self.origin, Segment(new, self.length - done))
        return SavedSegments(self.tokens, self.origin)


def _is_plain(cache: Any) -> bool:
    """Whether a cache holds the keys and values of all positions, unchanged."""
    return type(cache) is DynamicCache and all(type(layer) is DynamicLayer for layer in cache.layers)


def _can_go_on(cache: Any) -> bool:
    """Whether continuing a cache gives the same result as a run over all tokens at once.

    It does with a sliding window. It does not with quantisation, because a run at once attends before it quantises.
    """
    kinds = (DynamicLayer, DynamicSlidingWindowLayer)
    return type(cache) is DynamicCache and all(type(layer) in kinds for layer in cache.layers)


def _copied(cache: Any) -> Any:
    """Return a cache on the same tensors, which is enough because layers replace tensors and never write to them."""
    copied = copy.copy(cache)
    copied.layers = [copy.copy(layer) for layer in cache.layers]
    return copied
