"""Caches that are arrays of keys and values, as in transformers and mlx: their sequences, and snapshots that share memory.

The array libraries differ in few operations, which `ArrayEngine` lists; slices are the same in both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions.sequence import CachedSequence, SavedSequence, SequenceEngine

__all__ = ["ArrayEngine", "ArraySequence", "Layers", "Rotation", "SavedSegments", "Segment", "cannot_shift", "is_near"]

# The keys and the values of each layer, arrays [1, heads, positions, size] of the engine.
Layers = tuple[tuple[Any, Any], ...]

# The allowed error of a rotated key relative to the largest: in float32, or in units of rounding if that is coarser.
NEAR, ROUNDINGS = 1e-4, 8


class Segment(NamedTuple):
    """The keys and values of a run of positions; nothing writes to them.

    Args:
        layers: The keys and values of each layer.
        length: The number of positions.
    """

    layers: Layers
    length: int


@dataclass(frozen=True, eq=False)
class SavedSegments:
    """A snapshot of a sequence's cache.

    Args:
        tokens: The tokens whose positions are cached.
        segments: Consecutive runs of positions; () if `cache` is set.
        cache: A copy of the engine's cache if it can be continued but not cut, else None.
    """

    tokens: tuple[int, ...]
    segments: tuple[Segment, ...] = ()
    cache: Any = None

    @property
    def is_cuttable(self) -> bool:
        """Whether the first positions can be restored without the rest."""
        return self.cache is None


class Rotation(Protocol):
    """The rotary position embedding of a model, computed by the model's own modules.

    Source: Su and others, RoFormer, 2021, https://arxiv.org/abs/2104.09864: rotations by p and by q add up to one by p + q.
    """

    def check(self, layers: Layers) -> None:
        """Check the model, and the keys that it has computed for one token repeated.

        Such a token sees only equal tokens, so its keys differ only by position, in every layer.

        Args:
            layers: The keys and values of each layer; () to check the model alone.

        Raises:
            ConfigurationError: Positions are learned, or keys are not rotated by their position only.
        """

    def back(self, keys: Any, positions: int, layer: int) -> Any:
        """Return the keys of a layer, [1, heads, L, size], rotated to positions that are lower by `positions`."""


class ArrayEngine(SequenceEngine):
    """A model whose caches hold arrays of keys and values, or other data that cannot be cut.

    Plain caches need the methods from `plain_layers` to `owned`, and `rotation` to be shifted.

    Args:
        make_cache: Returns an empty cache.
        sequence: The class of its sequences.
        rotation: The rotation of keys by their positions.
    """

    resumes = True
    make_cache: Any
    sequence: ClassVar[type[ArraySequence]]
    rotation: Rotation

    @abstractmethod
    def can_continue(self, cache: Any) -> bool:
        """Return whether continuing a copy of a cache gives the same result as a run over all tokens at once."""

    @abstractmethod
    def copied(self, cache: Any) -> Any:
        """Return an independent copy of a cache."""

    def plain_layers(self, cache: Any) -> Layers | None:
        """Return the arrays of a plain cache, or None unless it holds the keys and values of all positions, unchanged."""
        return None

    def cache_of(self, segments: Sequence[Segment]) -> Any:
        """Return a cache of consecutive segments, at least one."""
        raise NotImplementedError

    def cut(self, cache: Any, length: int) -> None:
        """Remove all but the first positions from a plain cache."""
        raise NotImplementedError

    def owned(self, layers: Layers) -> Layers:
        """Return copies of slices, which would keep the memory of the whole arrays."""
        raise NotImplementedError

    def first_positions(self, layers: Layers, length: int) -> Layers:
        """Return the first positions of some arrays, as slices of them."""
        return tuple((keys[:, :, :length], values[:, :, :length]) for keys, values in layers)

    def merged(self, segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
        """Return the segments to keep for a snapshot, possibly merged."""
        return segments

    def new(self) -> ArraySequence:
        """Return an empty sequence."""
        return self.sequence(self, (), self.make_cache())

    def restore(self, saved: SavedSequence, length: int) -> ArraySequence | None:
        """Return a sequence of the first tokens of a snapshot, which shares its memory."""
        assert isinstance(saved, SavedSegments)
        if saved.cache is not None:
            whole = length == len(saved.tokens)
            return self.sequence(self, saved.tokens, self.copied(saved.cache)) if whole else None
        origin = _first_positions(self, saved.segments, length)
        return self.sequence(
            self, saved.tokens[:length], self.cache_of(origin) if origin else self.make_cache(), origin
        )

    def resume(self, sequence: ArraySequence, length: int) -> ArraySequence | None:
        """Return the first tokens of a sequence that is no longer in use."""
        if not sequence.trim(length):
            return None
        return self.sequence(self, sequence.tokens, sequence.cache, sequence.origin)

    def check_shift(self) -> None:
        """Raise `ConfigurationError` if the model does not encode positions by rotating keys."""
        self.rotation.check(())
        sequence = self.new()
        # The embedding of an ordinary token; that of padding may be all zeros.
        sequence.feed([self.vocabulary_size // 2] * 8)
        layers = self.plain_layers(sequence.cache)
        if layers is not None:
            self.rotation.check(layers)


class ArraySequence(CachedSequence):
    """A sequence of such a model.

    Args:
        engine: The model.
        tokens: The tokens whose positions are cached.
        cache: The cache.
        origin: The beginning of the cache, shared with a snapshot.
    """

    def __init__(self, engine: Any, tokens: Sequence[int], cache: Any, origin: tuple[Segment, ...] = ()) -> None:
        super().__init__(tokens)
        self._engine = engine
        self.cache = cache
        self.origin = origin

    def trim(self, length: int) -> bool:
        """Keep only the first positions."""
        if length == self.length:
            return True
        if self._engine.plain_layers(self.cache) is None:
            return False
        self._engine.cut(self.cache, length)
        del self._tokens[length:]
        self.origin = _first_positions(self._engine, self.origin, length)
        return True

    def shift(self, drop: int) -> bool:
        """Drop the first positions, and rotate the keys of the others back accordingly."""
        engine = self._engine
        layers = engine.plain_layers(self.cache)
        if layers is None:
            return False
        moved = tuple(
            (engine.rotation.back(k[:, :, drop:], drop, i), v[:, :, drop:]) for i, (k, v) in enumerate(layers)
        )
        del self._tokens[:drop]
        self.cache = engine.cache_of([Segment(moved, self.length)]) if self._tokens else engine.make_cache()
        self.origin = ()
        return True

    def fork(self) -> Self | None:
        """Return an independent sequence."""
        if not self._engine.can_continue(self.cache):
            return None
        return type(self)(self._engine, self.tokens, self._engine.copied(self.cache), self.origin)

    def save(self) -> SavedSegments | None:
        """Return a snapshot of the cache."""
        engine = self._engine
        layers = engine.plain_layers(self.cache)
        if layers is None:
            copied = engine.copied(self.cache) if engine.can_continue(self.cache) else None
            return None if copied is None else SavedSegments(self.tokens, cache=copied)
        done = sum(segment.length for segment in self.origin)
        if done < self.length:
            # Copy only the new part; the rest is shared.
            new = tuple((k[:, :, done:], v[:, :, done:]) for k, v in layers)
            self.origin = engine.merged((*self.origin, Segment(engine.owned(new), self.length - done)))
        return SavedSegments(self.tokens, self.origin)


def _first_positions(engine: ArrayEngine, segments: tuple[Segment, ...], length: int) -> tuple[Segment, ...]:
    """Return the first positions of consecutive segments, as slices of the same arrays where the engine has these."""
    kept: list[Segment] = []
    for segment in segments:
        if length <= 0:
            break
        layers = segment.layers
        if length < segment.length:
            layers = engine.first_positions(layers, length)
        kept.append(Segment(layers, min(length, segment.length)))
        length -= segment.length
    return tuple(kept)


def is_near(moved: Any, expected: Any, precision: float) -> bool:
    """Return whether rotated keys equal others except for rounding.

    Args:
        moved: The rotated keys, in float32.
        expected: The keys that they should equal, in float32.
        precision: The rounding error of the cache's dtype, relative to 1.
    """
    near = max(NEAR, ROUNDINGS * precision)
    return not (moved - expected).abs().max().item() > near * expected.abs().max().item()


def cannot_shift(reason: str) -> ConfigurationError:
    """Return the error for a model whose positions cannot be shifted."""
    return ConfigurationError(f"rolling=True is not possible: {reason}; leave rolling=False")
