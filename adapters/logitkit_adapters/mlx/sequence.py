"""A sequence in an mlx engine, with the caches of its layers, which can move to other positions."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import mlx.core as mx
import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.sessions.text_tokenizer import TextTokenizer
from logitkit_adapters.arrays import logits_to_torch
from logitkit_adapters.mlx.weights import fingerprint
from logitkit_adapters.sessions.array_caches import (
    ArrayEngine,
    ArraySequence,
    Layers,
    Segment,
    cannot_shift,
    is_near,
)
from logitkit_adapters.sessions.likeliest import two_likeliest
from logitkit_adapters.sessions.shared_model import shared_by

__all__ = ["KeyRotations", "MlxEngine", "MlxSequence"]


class KeyRotations:
    """The rotary position embeddings of a model's layers; see `Rotation` for its methods.

    Args:
        name: The name of the model's class, for errors.
        layers: The layers of the model.
    """

    def __init__(self, name: str, layers: Sequence[Any]) -> None:
        self._name = name
        self._ropes: list[Any] = [getattr(getattr(layer, "self_attn", None), "rope", None) for layer in layers]

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


class MlxSequence(ArraySequence):
    """A sequence in an mlx engine; see `CachedSequence` for its methods."""

    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model and return logits in the model's dtype."""
        ids, parts = list(tokens), []
        run, in_steps = self._run(ids, all_positions)
        # As the engine does it: the last token alone, the tokens before it in steps.
        steps = range(STEP, len(ids) - (not all_positions), STEP) if in_steps else ()
        ends = [*steps] if all_positions or not in_steps else [*steps, len(ids) - 1]
        for begin, end in zip([0, *ends], [*ends, len(ids)], strict=True):
            if begin == end:
                continue
            output = run(begin, end)
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

    def _run(self, ids: list[int], all_positions: bool) -> tuple[Callable[[int, int], mx.array], bool]:
        """Return the function that runs the ids between two places through the model, and whether it may be called in steps.

        Args:
            ids: The ids to run.
            all_positions: Whether it returns the logits of every id, [1, L, V]; otherwise it may return the last ones only.

        Raises:
            ConfigurationError: An id is not in the model's vocabulary.
        """
        self._engine.check_ids(ids)
        return lambda begin, end: self._engine.forward(mx.array([ids[begin:end]]), self.cache), True


class MlxEngine(ArrayEngine):
    """A model of an mlx engine; see `ArrayEngine` for its methods.

    Subclasses set the engine's classes of caches, and define `forward` and `encode`.

    Args:
        model: The model.
        tokenizer: Its tokenizer, or None if all prompts are token ids; then no token ends a text.
        make_cache: Returns the empty caches of the layers.
        layers: The layers of the model.
        vocabulary_size: The number of logits columns; 0 if unknown.
        max_length: The maximum number of positions, if known.
        all_positions: The class of caches that keep all positions.
        window: The class of caches that keep the last positions.
    """

    sequence: ClassVar[type[MlxSequence]] = MlxSequence
    all_positions: ClassVar[type[Any]]
    window: ClassVar[type[Any]]

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        make_cache: Callable[[], list[Any]],
        *,
        layers: Sequence[Any],
        vocabulary_size: int,
        max_length: int | None,
    ) -> None:
        self.model = model
        self.lock = shared_by(model).lock
        self.tokenizer = tokenizer
        self.make_cache = make_cache
        self.vocabulary_size = vocabulary_size
        self.device = torch.device("cpu")
        self.max_length: int | None = max_length
        self.layers = len(layers)
        self.eos_ids = TextTokenizer(tokenizer).eos_ids
        self.rotation = KeyRotations(type(model).__name__, layers)

    @abstractmethod
    def forward(self, ids: mx.array, cache: list[Any]) -> mx.array:
        """Run tokens, [B, L], through the model, after those in a cache, and return their logits, [B, L, V]."""

    def check_ids(self, ids: Sequence[int]) -> None:
        """Check that ids are in the model's vocabulary, because mlx reads memory after the table of embeddings.

        Raises:
            ConfigurationError: One is not.
        """
        known = self.vocabulary_size
        least, most = min(ids, default=0), max(ids, default=0)
        if known and not 0 <= least <= most < known:
            raise ConfigurationError(
                f"a prompt has the token id {most if most >= known else least}; allowed are ids below {known}, the size of the "
                "model's vocabulary, from 0"
            )

    def can_continue(self, cache: list[Any]) -> bool:
        """Return whether continuing a cache gives the same result as a run over all tokens at once.

        It does for a rotating cache that may drop all positions, which is a sliding window. It does not with quantisation,
        because a run at once attends to the first tokens before it quantises them.
        """
        return all(
            type(layer) is self.all_positions or (type(layer) is self.window and not layer.keep) for layer in cache
        )

    def copied(self, cache: list[Any]) -> list[Any]:
        """Return an independent copy of a cache."""
        return copy.deepcopy(cache)

    def plain_layers(self, cache: list[Any]) -> Layers | None:
        """Return the arrays of a plain cache, or None unless it holds the keys and values of all positions, unchanged."""
        if any(type(layer) is not self.all_positions for layer in cache):
            return None
        filled = [layer for layer in cache if not layer.empty()]
        return tuple((layer.keys[..., : layer.offset, :], layer.values[..., : layer.offset, :]) for layer in filled)

    def cache_of(self, segments: Sequence[Segment]) -> list[Any]:
        """Return a cache of consecutive segments, with spare capacity, without which it would copy them again."""
        cache: list[Any] = self.make_cache()
        length = sum(segment.length for segment in segments)
        for layer, parts in zip(cache, zip(*(segment.layers for segment in segments), strict=True), strict=True):
            layer.keys, layer.values = (_joined(part, length, layer.step) for part in zip(*parts, strict=True))
            layer.offset = length
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
        return fingerprint(self.model)

    def greedy(self, logits: Tensor) -> int:
        """Return the most likely token by the values that the engine compares: rounded log-probabilities, which may be equal."""
        place, first, second = two_likeliest(logits)
        # Rounding is monotonic, so only values closer than its error can become equal.
        if first - second > torch.finfo(logits.dtype).eps * (ROUNDED + first - second):
            return place
        dtype = getattr(mx, str(logits.dtype).removeprefix("torch."))
        scores = mx.array(logits.float().numpy().reshape(-1)).astype(dtype)
        found: Any = mx.argmax(scores - mx.logsumexp(scores, keepdims=True)).item()
        return int(found)


def _joined(parts: Sequence[mx.array], length: int, step: int) -> mx.array:
    """Return keys or values in one array, with spare capacity as in the cache, which would otherwise copy them again."""
    batch, heads, _, size = parts[0].shape
    room = mx.zeros((batch, heads, step - length % step, size), parts[0].dtype)
    return mx.concatenate([*parts, room], 2)
