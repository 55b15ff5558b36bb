"""Snapshots of caches that hold the keys and values of all positions, shared by engines with arrays of that form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["SavedSegments", "Segment", "first_positions"]


class Segment(NamedTuple):
    """The keys and values of a run of positions; nothing writes to them.

    Args:
        layers: The keys and the values of each layer, arrays [1, heads, positions, size] of the engine.
        length: The number of positions.
    """

    layers: tuple[tuple[Any, Any], ...]
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


def first_positions(segments: tuple[Segment, ...], length: int) -> tuple[Segment, ...]:
    """Return the first positions of consecutive segments, as slices of the same arrays where the engine has these."""
    kept: list[Segment] = []
    for segment in segments:
        if length <= 0:
            break
        layers = segment.layers
        if length < segment.length:
            layers = tuple((keys[:, :, :length], values[:, :, :length]) for keys, values in layers)
        kept.append(Segment(layers, min(length, segment.length)))
        length -= segment.length
    return tuple(kept)
