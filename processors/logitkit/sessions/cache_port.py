"""The operations that a sequence needs from the engine whose cache it holds."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from logitkit.sessions.packing import Packing, composed

__all__ = ["CachePort", "SavedCache"]


class CachePort(Protocol):
    """Operations on the caches of one engine, which are values: no method modifies the cache that it is given."""

    @property
    def kind(self) -> str:
        """Identifies the model that a saved cache belongs to."""

    @abstractmethod
    def repacked(self, cache: Any, packing: Packing) -> Any | None:
        """Return the cache of the first `packing.cached` columns, or None if it must be recomputed."""

    @abstractmethod
    def batched(self, states: Sequence[Any], paddings: Sequence[int], cached: int) -> Any | None:
        """Return one cache of the rows of several states, or None if their caches belong to other models or must be recomputed.

        Args:
            states: `SequenceState`s with caches, with the same number of columns if padded on the left.
            paddings: The number of columns of padding on the left of each state.
            cached: The number of leading columns to cover; those of no state end before.
        """

    @abstractmethod
    def save(self, cache: Any, folder: os.PathLike[str]) -> bool:
        """Write the cache to a folder, and return whether that was possible."""


@dataclass(frozen=True, slots=True)
class SavedCache:
    """A cache in a folder, until a generator of its engine loads it.

    Args:
        folder: The folder.
        kind: The `kind` of the port that wrote it.
        key: Identifies its tokens, since another cache may have been saved to the same folder later.
        rows: The number of saved rows.
        cached: The number of saved columns.
        packing: The columns to use and their order; None: all, unchanged.
    """

    folder: str
    kind: str
    key: str
    rows: int
    cached: int
    packing: Packing | None = None

    def repacked(self, packing: Packing) -> SavedCache:
        """Return the same cache, to be repacked when it is loaded."""
        return replace(self, packing=packing if self.packing is None else composed(self.packing, packing))

    @staticmethod
    def key_file(folder: str | os.PathLike[str]) -> Path:
        """Return the file next to a folder that contains the key of its cache."""
        return Path(folder).with_suffix(".key")

    def is_there(self) -> bool:
        """Return whether the cache is still in its folder."""
        try:
            return self.key_file(self.folder).read_text() == self.key
        except (OSError, UnicodeDecodeError):
            return False
