"""What a sequence asks of the engine whose cache it keeps."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from logitkit.sessions.packing import Packing, composed

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
        key: Tells the tokens that it is of from others, which may have been saved to the same folder since.
        rows: How many rows it has there.
        cached: How many columns.
        packing: Which of them are wanted, and in which order; None: all, as they are.
    """

    folder: str
    kind: str
    key: str
    rows: int
    cached: int
    packing: Packing | None = None

    def repacked(self, packing: Packing) -> SavedCache:
        """Return the same cache, to be packed so once it is opened."""
        return replace(self, packing=packing if self.packing is None else composed(self.packing, packing))

    @staticmethod
    def key_file(folder: str | os.PathLike[str]) -> Path:
        """Return the file beside a folder that has the key of the cache in it."""
        return Path(folder).with_suffix(".key")

    def is_there(self) -> bool:
        """Return whether the cache still lies in its folder."""
        try:
            return self.key_file(self.folder).read_text() == self.key
        except (OSError, UnicodeDecodeError):
            return False
