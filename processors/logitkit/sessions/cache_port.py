"""What a sequence asks of the engine whose cache it keeps."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Protocol

from logitkit.sessions.packing import Packing

__all__ = ["CachePort", "SavedCache"]


class CachePort(Protocol):
    """The caches of one engine, as values: nothing here changes the cache that it is given."""

    @property
    def kind(self) -> str:
        """Names the model that a saved cache belongs to."""
        ...

    def repacked(self, cache: Any, packing: Packing) -> Any | None:
        """Return the cache of the first `packing.cached` columns, or None where it must be computed anew."""
        ...

    def save(self, cache: Any, folder: os.PathLike[str]) -> bool:
        """Write the cache into a folder, and return whether that could be done."""
        ...


@dataclass(frozen=True, slots=True)
class SavedCache:
    """A cache that lies in a folder, until a generator of its engine opens it.

    Args:
        folder: Where it lies.
        kind: The `kind` of the port that wrote it.
    """

    folder: str
    kind: str
