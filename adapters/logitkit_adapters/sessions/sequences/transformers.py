"""A sequence in transformers: one row, its keys and values in a `Cache`."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions.sequences.likeliest import likeliest
from logitkit_adapters.sessions.sequences.protocol import SavedSequence
from logitkit_adapters.sessions.sequences.transformers_rope import KeyRotation

__all__ = ["TransformersEngine", "TransformersSequence"]


class Segment(NamedTuple):
    """Keys and values of a run of positions, which nothing writes to.

    Args:
        layers: The keys and the values of each layer, [1, heads, positions, size].
        length: Number of positions.
    """

    layers: tuple[tuple[Tensor, Tensor], ...]
    length: int

    def first(self, length: int) -> Segment:
        """Return the first positions, on the same memory."""
        return Segment(tuple((k[:, :, :length], v[:, :, :length]) for k, v in self.layers), length)


@dataclass(frozen=True, eq=False)
class Saved:
    """The cache of a sequence at one time.

    Args:
        tokens: Whose positions are cached.
        segments: Runs of positions one after another; () where the layers are kept as they were.
        cache: The cache, where it can be gone on from, but not be cut.
    """

    tokens: tuple[int, ...]
    segments: tuple[Segment, ...] = ()
    cache: Any = None

    @property
    def is_cuttable(self) -> bool:
        """Whether the first positions of it can be restored without the others."""
        return self.cache is None


class TransformersEngine:
    """A causal language model of transformers; for what its methods promise see `SequenceEngine`.

    Args:
        model: The model.
        tokenizer: Its tokenizer, or None where all prompts are token ids.
        make_cache: Makes the empty cache of one sequence; the default is the one that `generate` makes.

    Raises:
        ConfigurationError: The model has an encoder, or no cache of positions.
    """

    resumes = True

    def __init__(self, model: Any, tokenizer: Any = None, make_cache: Callable[[], Any] | None = None) -> None:
        if getattr(model.config, "is_encoder_decoder", False):
            raise ConfigurationError(
                f"{type(model).__name__} has an encoder, whose output is no part of a sequence; give a decoder-only model"
            )
        if "past_key_values" not in inspect.signature(model.forward).parameters:
            raise ConfigurationError(
                f"{type(model).__name__} has no cache of positions (past_key_values) to go on from; use its `generate`"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.config = model.config.get_text_config(decoder=True)
        self.make_cache = make_cache or (lambda: DynamicCache(config=model.config))
        self.vocabulary_size = int(self.config.vocab_size)
        self.device: torch.device = model.device
        self.has_text = tokenizer is not None
        self.max_length: int | None = getattr(self.config, "max_position_embeddings", None)
        self.layers = int(self.config.num_hidden_layers)
        generation = getattr(model, "generation_config", None)
        eos = getattr(generation, "eos_token_id", None)
        eos = getattr(self.config, "eos_token_id", None) if eos is None else eos
        self.eos_ids = frozenset(eos if isinstance(eos, list) else () if eos is None else (eos,))

    @cached_property
    def last_only(self) -> dict[str, int]:
        """What makes the model work out the last logits only, where it can."""
        known = inspect.signature(self.model.forward).parameters
        return {"logits_to_keep": 1} if "logits_to_keep" in known else {}

    @cached_property
    def rotation(self) -> KeyRotation:
        """How keys turn with their positions."""
        return KeyRotation(self.model)

    def new(self) -> TransformersSequence:
        """Return a sequence without tokens."""
        return TransformersSequence(self, (), self.make_cache(), ())

    def restore(self, saved: SavedSequence, length: int) -> TransformersSequence | None:
        """Return a sequence of the first tokens of a saved one; its past is shared memory."""
        assert isinstance(saved, Saved)
        if saved.cache is not None:
            if length != len(saved.tokens):
                return None
            return TransformersSequence(self, saved.tokens, _copied(saved.cache), ())
        origin = _first(saved.segments, length)
        cache = self.make_cache()
        if origin:
            for place, parts in enumerate(zip(*(s.layers for s in origin), strict=True)):
                keys, values = (torch.cat(part, 2) if len(part) > 1 else part[0] for part in zip(*parts, strict=True))
                cache.update(keys, values, place)
        return TransformersSequence(self, saved.tokens[:length], cache, origin)

    def resume(self, sequence: TransformersSequence, length: int) -> TransformersSequence | None:
        """Return the first tokens of a sequence that is used by nobody any more."""
        return (
            TransformersSequence(self, sequence.tokens, sequence.cache, sequence.origin)
            if sequence.trim(length)
            else None
        )

    def greedy(self, logits: Tensor) -> int:
        """Return the likeliest token."""
        return likeliest(logits)

    def forget(self) -> None:
        """Do nothing: a model of transformers holds no cache."""

    def check_shift(self) -> None:
        """Raise `ConfigurationError` if positions are not told to the model by turning keys."""
        self.rotation.check()
        sequence = self.new()
        # Of an ordinary token: that of pads may be all zeros.
        sequence.feed([self.vocabulary_size // 2] * 8)
        if _is_plain(sequence.cache):
            self.rotation.check([layer.keys for layer in sequence.cache.layers])

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt."""
        found: list[int] = self.tokenizer(text)["input_ids"]
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of new tokens."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))


class TransformersSequence:
    """Tokens of one sequence in transformers; for what its methods promise see `CachedSequence`.

    Args:
        engine: The model.
        tokens: Whose positions the cache holds.
        cache: The cache.
        origin: The beginning of the cache that is shared with what was saved.
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
        """Number of those tokens."""
        return len(self._tokens)

    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model and return float32 logits."""
        engine = self._engine
        ids = torch.tensor([list(tokens)], dtype=torch.int64, device=engine.model.device)
        keep = {} if all_positions else engine.last_only
        with torch.no_grad():
            output = engine.model(input_ids=ids, past_key_values=self.cache, use_cache=True, **keep)
        self._tokens.extend(tokens)
        self.positions_fed += len(tokens)
        self.forward_passes += 1
        logits: Tensor = output.logits[0] if all_positions else output.logits[0, -1]
        return logits.to(torch.float32, copy=True)

    def trim(self, length: int) -> bool:
        """Keep the first positions only."""
        removed = self.length - length
        if removed and not _is_plain(self.cache):
            return False
        if removed:
            for layer in self.cache.layers:
                layer.keys, layer.values = layer.keys[:, :, :length], layer.values[:, :, :length]
            del self._tokens[length:]
            self.origin = _first(self.origin, length)
        return True

    def shift(self, drop: int) -> bool:
        """Drop the first positions and turn the keys of the others back by as many."""
        if not _is_plain(self.cache):
            return False
        for layer in self.cache.layers:
            layer.keys = self._engine.rotation.back(layer.keys[:, :, drop:], drop)
            layer.values = layer.values[:, :, drop:]
        del self._tokens[:drop]
        self.origin = ()
        return True

    def fork(self) -> TransformersSequence | None:
        """Return a sequence that goes its own way, on the same memory."""
        if not (_is_plain(self.cache) or _can_go_on(self.cache)):
            return None
        return TransformersSequence(self._engine, self.tokens, _copied(self.cache), self.origin)

    def save(self) -> Saved | None:
        """Return the cache as it is now."""
        if not _is_plain(self.cache):
            return Saved(self.tokens, cache=_copied(self.cache)) if _can_go_on(self.cache) else None
        done = sum(segment.length for segment in self.origin)
        if done < self.length:
            # Without what is shared, and without the memory that the whole lies in.
            new = tuple((la.keys[:, :, done:].clone(), la.values[:, :, done:].clone()) for la in self.cache.layers)
            self.origin = (*self.origin, Segment(new, self.length - done))
        return Saved(self.tokens, self.origin)


def _first(segments: tuple[Segment, ...], length: int) -> tuple[Segment, ...]:
    kept: list[Segment] = []
    for segment in segments:
        if length <= 0:
            break
        kept.append(segment if segment.length <= length else segment.first(length))
        length -= segment.length
    return tuple(kept)


def _is_plain(cache: Any) -> bool:
    """Whether a cache is the keys and values of all positions, as they were computed."""
    return type(cache) is DynamicCache and all(type(layer) is DynamicLayer for layer in cache.layers)


def _can_go_on(cache: Any) -> bool:
    """Whether tokens behind a cache come out as in a run over all tokens at once.

    Those of a sliding window do. Quantised positions do not: at once, a prompt is attended to before it is quantised.
    """
    kinds = (DynamicLayer, DynamicSlidingWindowLayer)
    return type(cache) is DynamicCache and all(type(layer) in kinds for layer in cache.layers)


def _copied(cache: Any) -> Any:
    """Return a cache on the same tensors: a layer puts others in their place, and writes to none."""
    copied = copy.copy(cache)
    copied.layers = [copy.copy(layer) for layer in cache.layers]
    return copied
