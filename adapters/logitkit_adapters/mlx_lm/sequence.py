"""A sequence in mlx-lm, with the caches of its layers, which can move to other positions."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import torch
from mlx_lm.models.cache import KVCache, RotatingKVCache, make_prompt_cache
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.sessions.text_tokenizer import TextTokenizer
from logitkit_adapters.arrays import logits_to_torch
from logitkit_adapters.mlx_lm import files
from logitkit_adapters.sessions.array_caches import (
    ArrayEngine,
    ArraySequence,
    Layers,
    SavedSegments,
    Segment,
    cannot_shift,
    is_near,
)
from logitkit_adapters.sessions.likeliest import two_likeliest
from logitkit_adapters.sessions.sequence import SavedSequence
from logitkit_adapters.sessions.shared_model import shared_by

__all__ = ["KeyRotations", "MlxLmEngine", "MlxLmSequence"]


class KeyRotations:
    """The rotary position embeddings of a model's layers; see `Rotation` for its methods.

    Args:
        model: A model of mlx-lm.
    """

    def __init__(self, model: Any) -> None:
        self._name = type(model).__name__
        self._ropes: list[Any] = [getattr(getattr(layer, "self_attn", None), "rope", None) for layer in model.layers]

    def check(self, layers: Layers) -> None:
        """Raise `ConfigurationError` unless keys are rotated by their positions."""
        if None in self._ropes:
            raise cannot_shift(
                f"{self._name} has no rotary position embedding: a learned position cannot be taken out of a key"
            )
        for place, (keys, _) in enumerate(layers):
            moved = self.back(keys[:, :, 1:], 1, place)
            there = keys[:, :, :-1].astype(mx.float32)
            if not is_near(moved.astype(mx.float32), there, mx.finfo(keys.dtype).eps):
                raise cannot_shift(f"{self._name} rotates keys in an unsupported way")

    def back(self, keys: mx.array, positions: int, layer: int) -> mx.array:
        """Return the keys of a layer rotated to positions that are lower by `positions`."""
        _, heads, length, size = keys.shape
        # A module assigns consecutive positions to the tokens of a row, but the same ones to all rows.
        rows = keys.astype(mx.float32).reshape(heads, length, 1, size).swapaxes(0, 1)
        # Some kinds also multiply the keys by a constant, which has already been done.
        rope = self._ropes[layer]
        factor = rope(mx.ones((1, 1, 1, size)), offset=0)
        turned: mx.array = rope(rows / factor, offset=-positions)
        return turned.swapaxes(0, 1).reshape(keys.shape).astype(keys.dtype)


# The number of tokens that `generate_step` runs through the model at a time.
STEP = 2048

# Exceeds the distance of the two largest logits from the log of the sum, which is at most the log of the vocabulary size.
ROUNDED = 64.0


class MlxLmSequence(ArraySequence):
    """A sequence in mlx-lm; see `CachedSequence` for its methods."""

    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model and return logits in the model's dtype."""
        ids, parts = list(tokens), []
        known = self._engine.vocabulary_size
        if known and max(ids, default=0) >= known:
            # mlx reads memory after the table of embeddings.
            raise ConfigurationError(
                f"a prompt has the token id {max(ids)}; allowed are ids below {known}, the size of the model's vocabulary"
            )
        # As in mlx-lm: the last token alone, the tokens before it in steps.
        ends = range(STEP, len(ids), STEP) if all_positions else [*range(STEP, len(ids) - 1, STEP), len(ids) - 1]
        for begin, end in zip([0, *ends], [*ends, len(ids)], strict=True):
            if begin == end:
                continue
            output = self._engine.model(mx.array([ids[begin:end]]), cache=self.cache)
            parts.append(output[0] if all_positions else output[0, -1])
            if end - begin == STEP:
                # Limits the memory. A shorter step is computed together with the last token, without its own logits.
                mx.eval([layer.state for layer in self.cache])
        logits: Any = mx.concatenate(parts) if all_positions else parts[-1]
        mx.eval(logits)
        self._count(ids)
        if logits.dtype == mx.float32 and not all_positions:
            # On the same memory, which nothing else reads any more: a copy would take a twentieth of a pass of a small model.
            return torch.frombuffer(memoryview(logits), dtype=torch.float32)
        taken = logits_to_torch(logits).tensor
        return taken if all_positions else taken[0]


class MlxLmEngine(ArrayEngine):
    """A model of mlx-lm; see `ArrayEngine` for its methods.

    Args:
        model: The model.
        tokenizer: Its `TokenizerWrapper`, or None if all prompts are token ids; then no token ends a text.
        make_cache: Returns the empty caches of the layers; default: mlx-lm's own.
    """

    sequence = MlxLmSequence

    def __init__(self, model: Any, tokenizer: Any = None, make_cache: Callable[[], list[Any]] | None = None) -> None:
        self.model = model
        self.lock = shared_by(model).lock
        self.tokenizer = tokenizer
        self.make_cache = make_cache or (lambda: make_prompt_cache(model))
        arguments = getattr(model, "args", None)
        self.vocabulary_size = int(getattr(arguments, "vocab_size", 0))
        self.device = torch.device("cpu")
        self.max_length: int | None = getattr(arguments, "max_position_embeddings", None)
        self.layers = len(model.layers)
        self.eos_ids = TextTokenizer(tokenizer).eos_ids
        self.rotation = KeyRotations(model)

    def can_continue(self, cache: list[Any]) -> bool:
        """Return whether continuing a cache gives the same result as a run over all tokens at once.

        It does for a rotating cache that may drop all positions, which is a sliding window. It does not with quantisation,
        because a run at once attends to the first tokens before it quantises them.
        """
        return all(type(layer) is KVCache or (type(layer) is RotatingKVCache and not layer.keep) for layer in cache)

    def copied(self, cache: list[Any]) -> list[Any]:
        """Return an independent copy of a cache."""
        return copy.deepcopy(cache)

    def plain_layers(self, cache: list[Any]) -> Layers | None:
        """Return the arrays of a plain cache, or None unless it holds the keys and values of all positions, unchanged."""
        if any(type(layer) is not KVCache for layer in cache):
            return None
        return tuple(layer.keys_and_values() for layer in cache if not layer.empty())

    def cache_of(self, segments: Sequence[Segment]) -> list[Any]:
        """Return a cache of consecutive segments, with spare capacity, without which it would copy them again."""
        cache: list[Any] = self.make_cache()
        length = sum(segment.length for segment in segments)
        for layer, parts in zip(cache, zip(*(segment.layers for segment in segments), strict=True), strict=True):
            layer.state = (*(_joined(part, length, layer.step) for part in zip(*parts, strict=True)), length)
        mx.eval([layer.state for layer in cache])
        return cache

    def cut(self, cache: list[Any], length: int) -> None:
        """Remove all but the first positions."""
        for layer in cache:
            layer.trim(layer.offset - length)

    def owned(self, layers: Layers) -> Layers:
        """Return copies of slices."""
        zero = mx.zeros((), layers[0][0].dtype)
        own = tuple((keys + zero, values + zero) for keys, values in layers)
        mx.eval(own)
        return own

    def first_positions(self, layers: Layers, length: int) -> Layers:
        """Return the first positions of some arrays, as slices of them."""
        first = super().first_positions(layers, length)
        mx.eval(first)
        return first

    def merged(self, segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
        """Merge segments until each is at most half as long as the one before: so there are few, which join quickly."""
        *before, last = segments
        while before and before[-1].length < 2 * last.length:
            first = before.pop()
            pairs = zip(first.layers, last.layers, strict=True)
            layers = tuple((mx.concatenate([k, m], 2), mx.concatenate([v, w], 2)) for (k, v), (m, w) in pairs)
            mx.eval(layers)
            last = Segment(layers, first.length + last.length)
        return (*before, last)

    def fingerprint(self) -> str:
        """Return a string that identifies this model."""
        return files.fingerprint(self.model)

    def write(self, saved: SavedSequence, length: int, path: str | os.PathLike[str]) -> bool:
        """Write the first tokens of a cache."""
        sequence = self.restore(saved, length)
        if sequence is not None:
            files.write(path, sequence.cache, sequence.tokens)
        return sequence is not None

    def read(self, path: str | os.PathLike[str]) -> SavedSegments | None:
        """Return a snapshot written by `write`."""
        found = files.read(path, self.make_cache())
        return None if found is None else MlxLmSequence(self, *found).save()

    def greedy(self, logits: Tensor) -> int:
        """Return the most likely token by the values that mlx-lm compares: rounded log-probabilities, which may be equal."""
        place, first, second = two_likeliest(logits)
        # Rounding is monotonic, so only values closer than its error can become equal.
        if first - second > torch.finfo(logits.dtype).eps * (ROUNDED + first - second):
            return place
        dtype = getattr(mx, str(logits.dtype).removeprefix("torch."))
        scores = mx.array(logits.float().numpy().reshape(-1)).astype(dtype)
        found: Any = mx.argmax(scores - mx.logsumexp(scores, keepdims=True)).item()
        return int(found)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt, as `stream_generate` encodes it."""
        bos = self.tokenizer.bos_token
        special = bos is None or not text.startswith(bos)
        return list(self.tokenizer.encode(text, add_special_tokens=special))


def _joined(parts: Sequence[mx.array], length: int, step: int) -> mx.array:
    """Return keys or values in one array, with spare capacity as in the cache, which would otherwise copy them again."""
    batch, heads, _, size = parts[0].shape
    room = mx.zeros((batch, heads, step - length % step, size), parts[0].dtype)
    return mx.concatenate([*parts, room], 2)
